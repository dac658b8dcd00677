-- session_keep.lua: set when sessions end that were left without a time to keep them.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  ends_ms          when they end, unless a connection joins them
-- RETURNS  how many there are
-- ERRORS   none
-- SAME AS  engine/tubes/sessions.py:leave_all

-- include lib/session_answer.lua

local place, ends_ms = slot_prefix(KEYS[1]), ARGV[1]

local sessions = redis.call('SMEMBERS', place .. 'unsaid')
for _, session in ipairs(sessions) do
  redis.call('ZADD', place .. 'left', ends_ms, session)
end
redis.call('DEL', place .. 'unsaid')
return session_answer(#sessions)
