-- feed_soonest(one, other): the lowest score in two sorted sets; nothing when both are empty.
local function feed_soonest(one, other)
  local first_ms = tonumber(redis.call('ZRANGE', one, 0, 0, 'WITHSCORES')[2])
  local second_ms = tonumber(redis.call('ZRANGE', other, 0, 0, 'WITHSCORES')[2])
  if first_ms and second_ms then
    return math.min(first_ms, second_ms)
  end
  return first_ms or second_ms
end
