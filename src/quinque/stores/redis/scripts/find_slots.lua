-- find_slots.lua: what every broker asks for once a second: the time, and the slots in use.
--
-- KEYS     1  slots      SET   tags of the slots that have, or had, a queue
-- ARGV     1  known            how many of them the broker knows
-- RETURNS  Redis's clock (s and µs), and the tags, or nothing if there are no more than are known
-- ERRORS   none
-- SAME AS  nothing: an embedded store is alone

local slots, known = KEYS[1], tonumber(ARGV[1])

local time = redis.call('TIME')
local found = redis.call('SCARD', slots) ~= known and redis.call('SMEMBERS', slots)
return {{}, {}, {}, {tonumber(time[1]), tonumber(time[2]), found}}
