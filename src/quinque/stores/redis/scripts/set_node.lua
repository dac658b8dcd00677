-- set_node.lua: a broker leaves or does not, under this name or a new one.
--
-- KEYS     1  node       HASH  the broker: id, is_leaving
-- ARGV     1  id               its id; '' = as it is
--          2  is_leaving       1 or 0; '' = as it is
-- RETURNS  its id, 1 if it is leaving
-- ERRORS   none
-- SAME AS  stores/embedded/names.py:set_node

local node, id, is_leaving = KEYS[1], ARGV[1], ARGV[2]

if id ~= '' then
  redis.call('HSET', node, 'id', id)
end
if is_leaving ~= '' then
  redis.call('HSET', node, 'is_leaving', is_leaving)
end
local fields = redis.call('HMGET', node, 'id', 'is_leaving')
return {{}, {}, {}, {fields[1], fields[2] == '1' and 1 or 0}}
