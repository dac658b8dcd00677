-- session_check.lua: of sessions that have taken something, let those end that no broker has.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  ends_ms          when: a connection may be about to join one
--          2.. session         each of them
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  nothing: an embedded store knows all its sessions

-- include lib/session_answer.lua

local place, ends_ms = slot_prefix(KEYS[1]), ARGV[1]

for at = 2, #ARGV do
  if redis.call('HEXISTS', place .. 'connections', ARGV[at]) == 0
      and redis.call('ZADD', place .. 'left', 'NX', ends_ms, ARGV[at]) == 1 then
    redis.call('SADD', place .. 'shared', ARGV[at])
  end
end
return session_answer(false)
