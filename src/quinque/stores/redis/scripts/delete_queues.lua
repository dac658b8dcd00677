-- delete_queues.lua: worklists of a slot are gone, with all that was in them.
--
-- KEYS     1  slot       HASH  the worklists' slot
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many of each kind in each
--          4.. queue           each worklist, none twice
-- RETURNS  how many there were
-- ERRORS   WRONGTYPE           a name belongs to another family: then none is gone
-- SAME AS  model/queue_ops.py:DeleteQueues

-- include lib/work_end.lua
-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local lists = {}
for at = 4, #ARGV do
  local list = work_find(slot, ARGV[at], family, now_ms, settle_most, false)
  if list == nil then
    return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  elseif list then
    lists[#lists + 1] = list
  end
end
for _, list in ipairs(lists) do
  work_end(slot, list.name, family, now_ms)
  opened[slot .. list.name] = nil
end
return work_answer(#lists)
