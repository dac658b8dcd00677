-- keep_time(slot, now_ms, ...): a broker that opens the store later goes on from there, whatever its
-- own clock shows. Called by whatever changes something. Fields of the slot that are to be kept too
-- may follow, each with its value.
-- Whoever asks the slot for something anyway may ask for at_ms besides, and set kept_time_ms.
local kept_time_ms = 0

local function keep_time(slot, now_ms, ...)
  if kept_time_ms == 0 then
    kept_time_ms = tonumber(redis.call('HGET', slot .. 'slot', 'at_ms') or 0)
  end
  if kept_time_ms < now_ms then
    kept_time_ms = now_ms
    redis.call('HSET', slot .. 'slot', 'at_ms', string.format('%d', now_ms), ...)
  elseif select('#', ...) > 0 then
    redis.call('HSET', slot .. 'slot', ...)
  end
end
