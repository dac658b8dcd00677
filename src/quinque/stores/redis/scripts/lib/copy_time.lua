-- copy_time(slot, at_ms, stamp_us): what the slot knows of time and places is not behind these.
--
-- include lib/keep_time.lua
local function copy_time(slot, at_ms, stamp_us)
  keep_time(slot, at_ms)
  local last_place = tonumber(redis.call('HGET', slot .. 'slot', 'last_place') or 0)
  redis.call('HSET', slot .. 'slot', 'last_place',
      string.format('%.0f', math.max(last_place, stamp_us)))
end
