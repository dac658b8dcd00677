-- late_ms(now_ms, follows): how much later it is by the clock of Redis than now_ms, which a broker
-- said that follows it; 0 if it does not ('0'). A lease begins when it is taken, however long the
-- call was on its way.
local function late_ms(now_ms, follows)
  if follows == '0' then
    return 0
  end
  local time = redis.call('TIME')
  return math.max(0, tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - now_ms)
end
