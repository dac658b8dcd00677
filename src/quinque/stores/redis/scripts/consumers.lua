-- consumers.lua: note how many consumers a broker has, or find those of the others.
--
-- KEYS     1  consumers  HASH  id of a broker -> when it wrote (ms), its consumers (packed)
-- ARGV     1  id               of the broker
--          2  kept_ms          for how long this counts
--          3  is_noted         1 = note these; 0 = find those of the others
--          4  packed           its consumers; empty = none
-- RETURNS  the packed consumers of each other broker, if they are asked for
-- ERRORS   none
-- SAME AS  nothing: a store of one broker has no others

local consumers, id, kept_ms, packed = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[4]

-- The time of Redis itself: the clocks of brokers need not agree.
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

if ARGV[3] == '1' then
  if packed == '' then
    redis.call('HDEL', consumers, id)
  else
    redis.call('HSET', consumers, id, string.format('%.0f ', now_ms) .. packed)
    -- After the last broker was killed, too.
    redis.call('PEXPIRE', consumers, kept_ms)
  end
  return {{}, {}, {}, false}
end

local found = {}
local records = redis.call('HGETALL', consumers)
for at = 1, #records, 2 do
  local other, record = records[at], records[at + 1]
  local space = string.find(record, ' ', 1, true)
  local written_ms = space and tonumber(string.sub(record, 1, space - 1)) or 0
  if now_ms - written_ms > kept_ms then
    redis.call('HDEL', consumers, other)
  elseif other ~= id then
    found[#found + 1] = string.sub(record, space + 1)
  end
end
return {{}, {}, {}, found}
