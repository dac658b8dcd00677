-- session_hear(place, broker, keep_ms): note that the broker lives, and that sessions that lose it
-- are kept for keep_ms. Returns the time (ms) of Redis: the clocks of brokers need not agree.
local function session_hear(place, broker, keep_ms)
  local time = redis.call('TIME')
  local heard_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  redis.call('ZADD', place .. 'heard', string.format('%d', heard_ms), broker)
  redis.call('HSET', place .. 'keeps', broker, keep_ms)
  return heard_ms
end
