-- due.lua: the queues of a slot in which time has made something due.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  most             as many queues at most
-- RETURNS  name, code of its family, name, code, ...; with code 0, the kind of the first timer
-- ERRORS   none
-- SAME AS  stores/embedded/alarms.py:take

-- include lib/answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, most = ARGV[1], ARGV[2]

tells_timers = true
local found = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', slot .. 'alarms', '-inf', now_ms,
    'LIMIT', 0, most)) do
  local family = redis.call('HGET', slot .. 'queues', name)
  if family then
    found[#found + 1] = name
    found[#found + 1] = family
  else
    redis.call('ZREM', slot .. 'alarms', name)
  end
end
local timer = redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms, 'LIMIT', 0, 1)[1]
if timer then
  found[#found + 1] = string.match(timer, '^%a+')
  found[#found + 1] = '0'
end
return answer(found)
