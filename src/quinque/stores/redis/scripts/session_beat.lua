-- session_beat.lua: note the heartbeat of a broker; a broker without one loses its sessions.
--
-- KEYS     1  slot       HASH  where sessions are
-- ARGV     1  now_ms           the broker's clock
--          2  broker           which broker, since it was started
--          3  keep_ms          how long sessions are kept that lose it
--          4  total            how many of its connections are of a session
--          5  failed_ms        a broker that was not seen for this time does not live
--          6  most             about this many sessions of such a broker at most
-- RETURNS  1 if the stored total is the same, else 0
-- ERRORS   none
-- SAME AS  nothing: an embedded store has one broker

-- include lib/hash_some.lua
-- include lib/session_answer.lua
-- include lib/session_hear.lua
-- include lib/session_part.lua

local place, now_ms, broker, keep_ms = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2], ARGV[3]
local total, failed_ms, most = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])

local function lose(other)
  local ends_ms = now_ms + tonumber(redis.call('HGET', place .. 'keeps', other) or 0)
  local found = hash_some(place .. 'broker:' .. other, most)
  for at = 1, #found, 2 do
    if session_part(place, other, found[at], tonumber(found[at + 1]), ends_ms) then
      redis.call('SADD', place .. 'shared', found[at])  -- where it took something is not known
    end
  end
  if redis.call('EXISTS', place .. 'broker:' .. other) == 0 then
    redis.call('ZREM', place .. 'heard', other)
    redis.call('HDEL', place .. 'keeps', other)
    redis.call('HDEL', place .. 'totals', other)
  end
end

-- If Redis could hear no broker for long, because it was away or stood still, or if its clock jumped,
-- the silence of a broker says nothing: all of them have their time again from now on.
local function hear_all_after_a_gap(heard, heard_ms)
  local last_ms = tonumber(redis.call('GET', place .. 'beaten') or heard_ms)
  if last_ms > heard_ms or last_ms + failed_ms / 2 <= heard_ms then
    for _, other in ipairs(redis.call('ZRANGE', heard, 0, -1)) do
      redis.call('ZADD', heard, string.format('%d', heard_ms), other)
    end
  end
  redis.call('SET', place .. 'beaten', string.format('%d', heard_ms))
end

local known = redis.call('HGET', place .. 'totals', broker) or '0'
if total ~= '0' or known ~= '0' then
  session_hear(place, broker, keep_ms)
end
local heard, heard_ms = place .. 'heard', time_of_redis()
if redis.call('EXISTS', heard) == 1 then
  hear_all_after_a_gap(heard, heard_ms)
end
local others = redis.call('ZRANGEBYSCORE', heard, '-inf', string.format('%d', heard_ms - failed_ms),
    'LIMIT', 0, 1)
if others[1] then
  lose(others[1])
end
return session_answer(known == total and 1 or 0)
