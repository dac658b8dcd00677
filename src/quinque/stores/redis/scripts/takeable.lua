-- takeable.lua: how many messages worklists of a slot could hand out now.
--
-- KEYS     1  slot       HASH  the worklists' slot
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many of each kind
--          4  most             more than this many need not be counted
--          5.. queue, is_waited  of each worklist
-- RETURNS  for each worklist how many may be taken, -1 if it is not there; 1 if more is due in them than
--          one call settles
-- ERRORS   WRONGTYPE           a name belongs to another family
-- SAME AS  stores/embedded/work_taking.py

-- include lib/settle_room.lua
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
counts[#counts + 1] = settle_is_spent() and 1 or 0
return work_answer(counts)
