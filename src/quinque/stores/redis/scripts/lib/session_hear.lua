-- session_hear(place, broker, keep_ms): note that the broker lives, and that sessions that lose it
-- are kept for keep_ms.
--
-- time_of_redis(): the time (ms) of Redis: the clocks of brokers need not agree.
local function time_of_redis()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function session_hear(place, broker, keep_ms)
  redis.call('ZADD', place .. 'heard', string.format('%d', time_of_redis()), broker)
  redis.call('HSET', place .. 'keeps', broker, keep_ms)
end
