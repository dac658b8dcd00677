-- items_show.lua: items of a queue as they are now.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  room_bytes       look at no more once the data have this size
--          7.. id              of each item
-- RETURNS  for each id that was looked at when its lease ends (ms; 0 = no lease), and the data;
--          nothing twice if there is no such item
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/work_ops.py:Show

-- include lib/argv_rest.lua
-- include lib/items_find.lua
-- include lib/items_lease_ends.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, room_bytes, ids = ARGV[5], tonumber(ARGV[6]), argv_rest(7)

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
list = list or items_open(slot, queue, now_ms)
local found, ends = {}, items_lease_ends(list, ids)
for at, id in ipairs(ids) do
  if room_bytes <= 0 then
    break
  end
  local data = redis.call('GET', list.item .. id)
  found[2 * at - 1] = data and (ends[at] or 0)
  found[2 * at] = data
  room_bytes = room_bytes - (data and #data or 0)
end
return items_answer(found)
