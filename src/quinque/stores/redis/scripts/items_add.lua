-- items_add.lua: accept items under ids that the caller chose.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  is_known_new     1 = an item that is there has the new data
--          7.. id, data        of each item
-- RETURNS  for each item 1 if it is new, else 0
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:AddItems

-- include lib/items_drop_leases.lua
-- include lib/items_find.lua
-- include lib/work_record.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, is_known_new = ARGV[5], ARGV[6] == '1'

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
list = list or items_make(slot, queue, family, now_ms)

local done, ids, sizes = {}, {}, {}
for at = 7, #ARGV, 2 do
  local id, data = ARGV[at], ARGV[at + 1]
  local is_new = redis.call('SETNX', list.item .. id, data)
  done[#done + 1] = is_new
  if is_new == 1 then
    ids[#ids + 1], sizes[#sizes + 1] = id, #data
  elseif is_known_new then
    redis.call('SET', list.item .. id, data)
  end
end
if #ids > 0 then
  -- A worker that was late leaves one behind, for an item that was done.
  items_drop_leases(list, ids)
  many('LPUSH', list.queue, ids)
  work_record(list, ADDED, NONE, ids, sizes)
  list.came, list.active_ms, list.is_changed = list.came + #ids, now_ms, true
  ready_names[queue] = true
end
return items_answer(done)
