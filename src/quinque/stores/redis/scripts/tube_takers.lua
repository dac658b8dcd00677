-- tube_takers.lua: sessions that have taken something in a slot, or had.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  most             up to this many, by chance
-- RETURNS  the sessions
-- ERRORS   none
-- SAME AS  nothing: an embedded store knows all its sessions

-- include lib/answer.lua

return answer(redis.call('SRANDMEMBER', slot_prefix(KEYS[1]) .. 'takers', ARGV[1]))
