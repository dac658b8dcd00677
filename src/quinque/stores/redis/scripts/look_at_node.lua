-- look_at_node.lua: what a broker is called; it has an id from here on.
--
-- KEYS     1  node       HASH  the broker: id, is_leaving
-- ARGV     1  id               its id, if it has none
-- RETURNS  its id, 1 if it is leaving
-- ERRORS   none
-- SAME AS  stores/embedded/names.py:known_node

local node, id = KEYS[1], ARGV[1]

redis.call('HSETNX', node, 'id', id)
local fields = redis.call('HMGET', node, 'id', 'is_leaving')
return {{}, {}, {}, {fields[1], fields[2] == '1' and 1 or 0}}
