-- session_part(place, broker, session, count, ends_ms): so many connections fewer of that broker are of
-- the session; if nobody is any more, it ends then. Returns whether nobody is.
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
