-- event_share.lua: lease a number to a broker, by which it has a share of the ids of events.
--
-- KEYS     1  event_ids  HASH  number -> token of the broker that has it, end of its lease (ms)
-- ARGV     1  token            of the broker
--          2  lease_ms         for how long from now; 0 = it gives the number back
--          3  numbers          how many there are
-- RETURNS  its number: the one it had, or the lowest that is free; -1 = none is free, or given back
-- ERRORS   none
-- SAME AS  nothing: a store of one broker needs no numbers

local event_ids, token = KEYS[1], ARGV[1]
local lease_ms, numbers = tonumber(ARGV[2]), tonumber(ARGV[3])

-- The time of Redis itself: the clocks of brokers need not agree.
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local is_leased, mine, free = {}, nil, nil
local records = redis.call('HGETALL', event_ids)
for at = 1, #records, 2 do
  local holder, until_ms = string.match(records[at + 1], '^(%S+) (%d+)$')
  if holder == token then
    mine = tonumber(records[at])
  end
  is_leased[tonumber(records[at])] = holder and tonumber(until_ms) > now_ms
end
for at = 0, numbers - 1 do
  if not is_leased[at] then
    free = at
    break
  end
end

local kept = mine or free
if lease_ms == 0 then
  if mine then
    redis.call('HDEL', event_ids, mine)
  end
  kept = nil
elseif kept then
  redis.call('HSET', event_ids, kept, string.format('%s %.0f', token, now_ms + lease_ms))
end
return {{}, {}, {}, kept or -1}
