-- session_join.lua: add one connection of a broker to a session.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  now_ms           the broker's clock
--          2  broker           which broker, since it was started
--          3  session          the session
--          4  is_new           1 = it is made if it is not there
--          5  keep_ms          how long it is kept if the broker stops its heartbeat
-- RETURNS  nothing; or when the session, which is to be made again, ended: the tasks that it has taken
--          have to come back first
-- ERRORS   NOSESSION           it has no connection, and it is not kept
-- SAME AS  engine/tubes/sessions.py:join

-- include lib/session_answer.lua
-- include lib/session_hear.lua

local place, now_ms = slot_prefix(KEYS[1]), tonumber(ARGV[1])
local broker, session, is_new, keep_ms = ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]

local connections = tonumber(redis.call('HGET', place .. 'connections', session) or 0)
local ends_ms = redis.call('ZSCORE', place .. 'left', session)
local has_ended = ends_ms and tonumber(ends_ms) <= now_ms
if not is_new and connections == 0 and (has_ended or not ends_ms) then
  return session_answer(redis.error_reply('NOSESSION it is unknown'))
elseif has_ended then
  return session_answer(ends_ms)
end
local own = tonumber(redis.call('HGET', place .. 'broker:' .. broker, session) or 0)
if ends_ms or connections > own then
  -- It may have taken something through another broker.
  redis.call('SADD', place .. 'shared', session)
end
redis.call('HINCRBY', place .. 'connections', session, 1)
redis.call('HINCRBY', place .. 'broker:' .. broker, session, 1)
redis.call('HINCRBY', place .. 'totals', broker, 1)
redis.call('ZREM', place .. 'left', session)
redis.call('SREM', place .. 'unsaid', session)
session_hear(place, broker, keep_ms)
return session_answer(false)
