-- look_at_expiry.lua: when a worklist goes.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
-- RETURNS  when (ms), 0 = it stays; nothing if it is not there
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  model/queue_ops.py:LookAtExpiry

-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most = ARGV[5]

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
return work_answer(list and list.ends_ms)
