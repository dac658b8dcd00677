-- counts.lua: how many ids wait and how many were handed out, at one moment.
--
-- KEYS     1  prefix  of the queue's keys: keys.py
-- ARGV     none
-- RETURNS  both lengths
-- ERRORS   none
-- SAME AS  nothing

return {redis.call('LLEN', KEYS[1] .. 'queue'), redis.call('LLEN', KEYS[1] .. 'processing')}
