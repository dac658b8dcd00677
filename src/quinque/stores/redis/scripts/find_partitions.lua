-- find_partitions.lua: the worklists that are spread over several slots.
--
-- KEYS     1  partitions HASH  worklist -> how many partitions are written to and read from
-- ARGV     none
-- RETURNS  worklist, "written read", worklist, "written read", ...
-- ERRORS   none
-- SAME AS  nothing: an embedded store keeps a worklist in one piece

return {{}, {}, {}, redis.call('HGETALL', KEYS[1])}
