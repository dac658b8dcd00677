-- takeable.lua: how many messages worklists of a slot could hand out now.
--
-- KEYS     1  slot       HASH  the worklists' slot
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  settle_most      settle so many of each kind first
--          4  most             more than so many need not be counted
--          5.. queue, is_waited  of each worklist
-- RETURNS  for each worklist how many may be taken, -1 if it is not there
-- ERRORS   WRONGTYPE           a name belongs to another family
-- SAME AS  stores/embedded/work_taking.py

-- include lib/work_find.lua
-- include lib/work_takeable.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most, most = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local counts = {}
for at = 5, #ARGV, 2 do
  local list = work_find(slot, ARGV[at], family, now_ms, settle_most, ARGV[at + 1] == '1')
  if list == nil then
    return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  end
  counts[#counts + 1] = list and work_takeable(list, most) or -1
end
return work_answer(counts)
