-- due.lua: the queues of a slot in which time has made something due.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  most             as many queues at most
-- RETURNS  name, code of its family, name, code, ...
-- ERRORS   none
-- SAME AS  stores/embedded/alarms.py:take

-- include lib/answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, most = ARGV[1], ARGV[2]

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
return answer(found)
