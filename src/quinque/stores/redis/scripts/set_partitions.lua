-- set_partitions.lua: spread a worklist over `count` slots, and notify all brokers.
--
-- KEYS     1  partitions HASH  worklist -> how many partitions are written to and read from
-- ARGV     1  queue            the worklist
--          2  count            this many are written to from here on
-- RETURNS  how many are read from: those that were ever written to
-- ERRORS   none
-- SAME AS  nothing: an embedded store keeps a worklist in one piece

local partitions, queue, count = KEYS[1], ARGV[1], tonumber(ARGV[2])

local before = redis.call('HGET', partitions, queue)
local read = math.max(count, before and tonumber(string.match(before, ' (%d+)$')) or 1)
if read == 1 then
  redis.call('HDEL', partitions, queue)
else
  redis.call('HSET', partitions, queue, count .. ' ' .. read)
end
redis.call('PUBLISH', 'quinque:partitions', queue)
return {{}, {}, {}, read}
