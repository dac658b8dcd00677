-- copy_in_tube.lua: a tube is there as it was elsewhere, but for its tasks.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  at_ms            the latest time that is known elsewhere
--          3  queue            the tube
--          4  stamp_us         the newest stamp that is known elsewhere
--          5.. field, value    its kind, its settings, the number of its next task
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/tubes/apply.py:apply_tube_kept

-- include lib/answer.lua
-- include lib/argv_rest.lua
-- include lib/copy_time.lua
-- include lib/many.lua
-- include lib/slot_begin.lua

local slot, family, at_ms, queue = slot_prefix(KEYS[1]), ARGV[1], tonumber(ARGV[2]), ARGV[3]

slot_begin(slot)
if redis.call('HSETNX', slot .. 'queues', queue, family) == 1 then
  redis.call('ZADD', slot .. 'worklists',
      redis.call('HINCRBY', KEYS[1], 'last_number', 1), queue)
  redis.call('HSET', KEYS[1], 'has_tubes', 1)
end
redis.call('HSET', slot .. 'worklist:' .. queue, 'family', family)
many('HSET', slot .. 'worklist:' .. queue, argv_rest(5))
copy_time(slot, at_ms, tonumber(ARGV[4]))
return answer(false)
