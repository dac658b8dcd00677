-- session_ended.lua: what a session had taken when it ended has come back.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  session          the session
--          2  ended_ms         when it ended
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/tubes/sessions.py:ended

-- include lib/session_answer.lua

local place, session, ended_ms = slot_prefix(KEYS[1]), ARGV[1], tonumber(ARGV[2])

-- The session may have begun again, and ended again.
if tonumber(redis.call('ZSCORE', place .. 'left', session) or -1) == ended_ms then
  redis.call('ZREM', place .. 'left', session)
  redis.call('SREM', place .. 'shared', session)
  redis.call('SREM', place .. 'unsaid', session)
end
return session_answer(false)
