-- items_purge.lua: items of a queue are gone, all of its lists or of one of them; a part of them, if
-- there are very many.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  queued           1 = those in `queue`
--          7  held             1 = those in `processing`
--          8  most             remove up to this many
--          9  forgets          1 = the queue itself goes too, when nothing is left in it
-- RETURNS  how many went, 1 if there are more to remove
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  engine/work/decide.py:purge

-- include lib/items_find.lua
-- include lib/work_record.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, most, forgets = ARGV[5], tonumber(ARGV[8]), ARGV[9] == '1'
local is_wanted = {queue = ARGV[6] == '1', processing = ARGV[7] == '1'}

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return items_answer({0, 0})
end
local gone, left = {}, most
for _, kind in ipairs({'queue', 'processing'}) do
  local ids = is_wanted[kind] and left > 0 and redis.call('RPOP', list[kind], left) or {}
  left = left - #ids
  for _, id in ipairs(ids) do
    if redis.call('DEL', list.item .. id) == 1 then
      gone[#gone + 1] = id
    end
    redis.call('DEL', list.lease .. id, list.old_lease .. id)
  end
  many('ZREM', list.due, ids)
end
list.is_changed = true
if #gone > 0 then
  work_record(list, REMOVED, PURGED, gone)
end
if forgets and left > 0 and work_is_vacant(slot, queue) then
  work_forget(slot, queue)
  opened_items[queue] = nil
end
return items_answer({#gone, left == 0 and 1 or 0})
