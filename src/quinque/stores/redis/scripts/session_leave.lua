-- session_leave.lua: remove one connection of a broker from a session.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  now_ms           the broker's clock
--          2  broker           which broker, since it was started
--          3  session          the session
--          4  keep_ms          how long it is kept without a connection
-- RETURNS  when it ends, -1 = it has a connection; 1 if it may have taken something through another
--          broker, else 0
-- ERRORS   none
-- SAME AS  engine/tubes/sessions.py:leave

-- include lib/session_answer.lua
-- include lib/session_part.lua

local place, broker, session = slot_prefix(KEYS[1]), ARGV[2], ARGV[3]
local ends_ms = tonumber(ARGV[1]) + tonumber(ARGV[4])

if redis.call('HEXISTS', place .. 'broker:' .. broker, session) == 0
    or not session_part(place, broker, session, 1, ends_ms) then
  return session_answer({-1, 0})
end
return session_answer({ends_ms, redis.call('SISMEMBER', place .. 'shared', session)})
