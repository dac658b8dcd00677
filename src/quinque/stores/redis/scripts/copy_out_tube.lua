-- copy_out_tube.lua: a tube without its tasks, for a copy, and the ids of some of them.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  queue            the tube, which is there
--          2  cursor           of HSCAN; 0 at first
--          3  count            about this many ids
-- RETURNS  kind, order, since_ms, number, ttl_ms, ttr_ms, pri, capacity, width, is_temporary, options;
--          the cursor to go on with, 0 at the end; ids
-- ERRORS   none
-- SAME AS  engine/tubes/decide.py:tube_kept

-- include lib/answer.lua

local slot, queue, cursor, count = slot_prefix(KEYS[1]), ARGV[1], ARGV[2], ARGV[3]

local head = redis.call('HMGET', slot .. 'worklist:' .. queue, 'kind', 'order', 'since_ms', 'number',
    'ttl_ms', 'ttr_ms', 'pri', 'capacity', 'width', 'is_temporary', 'options')
local found = redis.call('HSCAN', slot .. 'tasks:' .. queue, cursor, 'COUNT', count)
local ids = {}
for at = 1, #found[2], 2 do
  ids[#ids + 1] = found[2][at]
end
return answer({head, found[1], ids})
