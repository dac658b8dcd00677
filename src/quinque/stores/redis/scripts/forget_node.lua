-- forget_node.lua: do not list a broker until its next heartbeat.
--
-- KEYS     1  brokers    HASH  id of a broker -> what it last told
-- ARGV     1  id               its id
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  model/work_ops.py:ForgetNode

redis.call('HDEL', KEYS[1], ARGV[1])
return {{}, {}, {}, false}
