-- open.lua: what a broker has to know of a slot when it begins.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     none
-- RETURNS  the latest time (ms) at which something was changed there, the latest place (µs), 1 if
--          sessions have taken something there, 1 if nothing is there (lib/slot_begin.lua)
-- ERRORS   none
-- SAME AS  stores/embedded/recover.py

-- include lib/answer.lua

tells_timers = true
local slot = slot_prefix(KEYS[1])
local known = redis.call('HMGET', KEYS[1], 'at_ms', 'last_place')
return answer({
  tonumber(known[1] or 0),
  tonumber(known[2] or 0),
  redis.call('EXISTS', slot .. 'takers'),
  redis.call('EXISTS', slot .. 'queues', slot .. 'timers', slot .. 'takers') == 0 and 1 or 0,
})
