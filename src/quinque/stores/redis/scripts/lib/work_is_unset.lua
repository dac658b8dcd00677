-- work_is_unset(slot, name): whether no dead message, claim or setting keeps the worklist. One that is
-- spread keeps its name: other slots may have messages of it.
-- SAME AS engine/work/worklist.py:is_unset
local function work_is_unset(slot, name)
  if redis.call('ZCARD', slot .. 'dead:' .. name) > 0 then
    return false
  end
  local set = redis.call('HMGET', slot .. 'worklist:' .. name,
      'is_paused_in', 'is_paused_out', 'max_deliveries', 'rate_count', 'claimed', 'family',
      'keeps_expired', 'is_spread')
  if set[6] == '4' and redis.call('EXISTS', name .. ':queue', name .. ':processing') > 0 then
    return false
  end
  return not (set[1] or set[2] or set[3] or set[4] or tonumber(set[5] or 0) > 0 or set[6] == '3'
      or set[6] == '5' or set[7] or set[8])
end
