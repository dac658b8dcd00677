-- note_slots.lua: these slots are about to have a queue.
--
-- KEYS     1  slots      SET   tags of the slots that have, or had, a queue
-- ARGV     1.. tag             of each slot
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  nothing: an embedded store has no slots

for at = 1, #ARGV do
  redis.call('SADD', KEYS[1], ARGV[at])
end
return {{}, {}, {}, false}
