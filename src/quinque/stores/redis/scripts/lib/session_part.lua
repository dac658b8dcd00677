-- session_part(place, broker, session, count, ends_ms): take `count` connections of that broker from
-- the session; if it has no other, it ends at ends_ms. Returns whether it has no other.
local function session_part(place, broker, session, count, ends_ms)
  if redis.call('HINCRBY', place .. 'broker:' .. broker, session, -count) <= 0 then
    redis.call('HDEL', place .. 'broker:' .. broker, session)
  end
  redis.call('HINCRBY', place .. 'totals', broker, -count)
  if redis.call('HINCRBY', place .. 'connections', session, -count) > 0 then
    return false
  end
  redis.call('HDEL', place .. 'connections', session)
  redis.call('ZADD', place .. 'left', string.format('%d', ends_ms), session)
  return true
end
