-- set_expiry.lua: a worklist goes at some time, with all that is in it, or stays.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  ends_ms          when it goes; 0 = it stays
-- RETURNS  1 if it is there and, for 0, was to go; else 0
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  model/queue_ops.py:SetExpiry

-- include lib/work_end.lua
-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, ends_ms = ARGV[5], tonumber(ARGV[6])

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list or (ends_ms == 0 and list.ends_ms == 0) then
  return work_answer(0)
end
if 0 < ends_ms and ends_ms <= now_ms then
  work_end(slot, queue, family, now_ms)
  opened[slot .. queue] = nil
  return work_answer(1)
end
if ends_ms > 0 then
  redis.call('HSET', slot .. 'worklist:' .. queue, 'ends_ms', ARGV[6])
else
  redis.call('HDEL', slot .. 'worklist:' .. queue, 'ends_ms')
end
list.ends_ms, list.is_changed = ends_ms, true
return work_answer(1)
