-- session_rejoin.lua: set the connections of a broker: to these sessions, and to no others.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  now_ms           the broker's clock
--          2  broker           which broker, since it was started
--          3  keep_ms          how long a session is kept without a connection
--          4  is_said          0 = that is a guess: session_keep.lua says for how long
--          5.. session, count  of each session how many connections
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  nothing: an embedded store forgets none

-- include lib/session_answer.lua
-- include lib/session_hear.lua
-- include lib/session_part.lua

local place, broker, keep_ms, is_said = slot_prefix(KEYS[1]), ARGV[2], ARGV[3], ARGV[4] == '1'
local ends_ms = tonumber(ARGV[1]) + tonumber(keep_ms)
local of_broker = place .. 'broker:' .. broker

local wanted = {}
for at = 5, #ARGV, 2 do
  wanted[ARGV[at]] = tonumber(ARGV[at + 1])
end
local known = redis.call('HGETALL', of_broker)
for at = 1, #known, 2 do
  local session, count = known[at], tonumber(known[at + 1])
  if not wanted[session] and session_part(place, broker, session, count, ends_ms) and not is_said then
    redis.call('SADD', place .. 'unsaid', session)
  end
end
for session, count in pairs(wanted) do
  local by = count - tonumber(redis.call('HGET', of_broker, session) or 0)
  redis.call('HINCRBY', place .. 'connections', session, by)
  redis.call('HSET', of_broker, session, count)
  redis.call('HINCRBY', place .. 'totals', broker, by)
  redis.call('ZREM', place .. 'left', session)
  redis.call('SADD', place .. 'shared', session)
end
if next(wanted) then
  session_hear(place, broker, keep_ms)
else
  redis.call('ZREM', place .. 'heard', broker)
  redis.call('HDEL', place .. 'keeps', broker)
  redis.call('HDEL', place .. 'totals', broker)
end
return session_answer(false)
