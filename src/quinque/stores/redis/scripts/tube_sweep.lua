-- tube_sweep.lua: what is left of tubes of a slot that went, or were emptied, is gone: a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the tubes' family
--          2  now_ms           the broker's clock
--          3  most             about this many tasks
-- RETURNS  1 if there is more to do, else 0
-- ERRORS   none
-- SAME AS  nothing: an embedded store removes all of them at once

-- include lib/answer.lua
-- include lib/tube_sweep.lua

local slot, family, now_ms, most = slot_prefix(KEYS[1]), ARGV[1], tonumber(ARGV[2]), ARGV[3]

tells_timers = true
local timer = redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms, 'LIMIT', 0, 1)[1]
local queue = timer and string.match(timer, '^swept:%d+:(.*)$')
if not queue then
  return answer(0)
end
if tube_sweep(slot, slot .. timer, queue, family, now_ms, most) then
  return answer(1)
end
redis.call('ZREM', slot .. 'timers', timer)
local following = redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms, 'LIMIT', 0, 1)[1]
return answer(following and string.match(following, '^swept:') and 1 or 0)
