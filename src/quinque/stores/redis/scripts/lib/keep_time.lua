-- keep_time(slot, now_ms, ...): a broker that opens the store later goes on from there, whatever its
-- own clock shows. Every script that changes something calls it. Fields of the slot that are to be
-- kept too may follow, each with its value.
-- A script that reads the slot anyway may also read at_ms, and set kept_time_ms.
--
-- read_time(slot): what keep_time reads is read: before a script writes, so that a fault at this read
-- leaves everything as it was.
local kept_time_ms = -1

local function read_time(slot)
  if kept_time_ms < 0 then
    kept_time_ms = tonumber(redis.call('HGET', slot .. 'slot', 'at_ms') or 0)
  end
end

local function keep_time(slot, now_ms, ...)
  read_time(slot)
  if kept_time_ms < now_ms then
    kept_time_ms = now_ms
    redis.call('HSET', slot .. 'slot', 'at_ms', string.format('%d', now_ms), ...)
  elseif select('#', ...) > 0 then
    redis.call('HSET', slot .. 'slot', ...)
  end
end
