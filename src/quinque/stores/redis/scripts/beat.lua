-- beat.lua: note the heartbeat of a broker, and list the others if asked.
--
-- KEYS     1  brokers    HASH  id of a broker -> heard_ms is_leaving port version host
-- ARGV     1  id               its id
--          2  is_leaving       1 or 0
--          3  port             where clients reach it; 0 = it is not written down
--          4  version          of Quinque
--          5  host             where clients reach it
--          6  forgotten_ms     brokers not seen for this time are not listed any more; 0 = list none
-- RETURNS  id, is_leaving, host, port, how long ago it was seen (ms), of each other broker
-- ERRORS   none
-- SAME AS  model/work_ops.py:FindNodes

local brokers, id, is_leaving, port = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local version, host, forgotten_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])

-- The time of Redis itself: the clocks of brokers need not agree.
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if port ~= '0' then
  local record = string.format('%.0f %s %s %s %s', now_ms, is_leaving, port, version, host)
  redis.call('HSET', brokers, id, record)
end

local found = {}
-- All brokers beat, and if each read what all others wrote, that would be as many times as many.
local records = forgotten_ms > 0 and redis.call('HGETALL', brokers) or {}
for at = 1, #records, 2 do
  local other, record = records[at], records[at + 1]
  local heard_ms, leaves, where, name = string.match(record, '^(%d+) ([01]) (%d+) %S+ (%S+)$')
  -- After a failover the clock may be behind.
  local unheard_ms = heard_ms and math.max(0, now_ms - tonumber(heard_ms)) or forgotten_ms
  if unheard_ms >= forgotten_ms then
    redis.call('HDEL', brokers, other)
  elseif other ~= id then
    found[#found + 1] = {other, tonumber(leaves), name, tonumber(where), unheard_ms}
  end
end
return {{}, {}, {}, found}
