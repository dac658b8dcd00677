-- keep_time(slot, now_ms): a broker that opens the store later goes on from there, whatever its
-- own clock shows. Called by whatever changes something.
local function keep_time(slot, now_ms)
  local at_ms = redis.call('HGET', slot .. 'slot', 'at_ms')
  if not at_ms or tonumber(at_ms) < now_ms then
    redis.call('HSET', slot .. 'slot', 'at_ms', now_ms)
  end
end
