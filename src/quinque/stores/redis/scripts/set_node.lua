-- set_node.lua: a broker leaves or does not, under this name or a new one.
--
-- KEYS     1  node       HASH  the broker: id, is_leaving
-- ARGV     1  id               its id
--          2  is_leaving       1 or 0; '' = as it is
--          3  kept_ms          how long the id is kept, if it does not come back
-- RETURNS  its id, 1 if it is leaving
-- ERRORS   none
-- SAME AS  stores/embedded/names.py:set_node

local node, id, is_leaving, kept_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

redis.call('HSET', node, 'id', id)
if is_leaving ~= '' then
  redis.call('HSET', node, 'is_leaving', is_leaving)
end
redis.call('PEXPIRE', node, kept_ms)
return {{}, {}, {}, {id, redis.call('HGET', node, 'is_leaving') == '1' and 1 or 0}}
