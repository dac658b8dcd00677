-- sweep.lua: messages of a worklist of the slot that is not there any more are gone, or a part of
-- them.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  most             up to this many
-- RETURNS  1 if there is more to be done at once, else 0
-- ERRORS   none
-- SAME AS  stores/embedded/books.py:end

-- include lib/answer.lua
-- include lib/work_sweep.lua

local slot, now_ms, most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])

tells_timers = true
local due = redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms, 'LIMIT', 0, 2)
local family, queue = string.match(due[1] or '', '^gone:%d+:(%d+):(.*)$')
if not family then
  return answer(0)
end
if work_sweep(slot, slot .. due[1], queue, family, now_ms, most) then
  return answer(1)
end
redis.call('ZREM', slot .. 'timers', due[1])
return answer(#due == 2 and 1 or 0)
