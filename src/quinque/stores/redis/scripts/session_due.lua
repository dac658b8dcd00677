-- session_due.lua: sessions that have ended, and what they have taken has yet to come back.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  now_ms           the broker's clock
--          2  most             up to this many
-- RETURNS  session, when it ended, 1 if it may have taken something through several brokers, of each
-- ERRORS   none
-- SAME AS  engine/tubes/sessions.py:ended

-- include lib/session_answer.lua

local place, now_ms, most = slot_prefix(KEYS[1]), ARGV[1], ARGV[2]

local found = {}
local due = redis.call('ZRANGEBYSCORE', place .. 'left', '-inf', now_ms, 'WITHSCORES',
    'LIMIT', 0, most)
for at = 1, #due, 2 do
  found[#found + 1] = {due[at], due[at + 1], redis.call('SISMEMBER', place .. 'shared', due[at])}
end
return session_answer(found)
