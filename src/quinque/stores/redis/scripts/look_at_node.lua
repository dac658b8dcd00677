-- look_at_node.lua: the id of a broker, which it gets if it has no id yet.
--
-- KEYS     1  node       HASH  the broker: id, is_leaving
-- ARGV     1  id               its new id, if it has no id yet
--          2  kept_ms          how long the id is kept, if it does not come back
-- RETURNS  its id, 1 if it is leaving
-- ERRORS   none
-- SAME AS  stores/embedded/names.py:known_node

local node, id, kept_ms = KEYS[1], ARGV[1], ARGV[2]

redis.call('HSETNX', node, 'id', id)
redis.call('PEXPIRE', node, kept_ms)
local fields = redis.call('HMGET', node, 'id', 'is_leaving')
return {{}, {}, {}, {fields[1], fields[2] == '1' and 1 or 0}}
