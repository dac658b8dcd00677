-- work_is_vacant(slot, name): whether the worklist holds nothing anybody asked to be kept, so that
-- another family may have the name. SAME AS engine/work/worklist.py:is_vacant
local function work_is_vacant(slot, name)
  if redis.call('EXISTS', slot .. 'worklist:' .. name) == 0
      or redis.call('ZCARD', slot .. 'expires:' .. name) > 0
      or redis.call('ZCARD', slot .. 'dead:' .. name) > 0 then
    return false
  end
  local set = redis.call('HMGET', slot .. 'worklist:' .. name,
      'is_paused_in', 'is_paused_out', 'max_deliveries', 'rate_count', 'claimed', 'family')
  if set[6] == '4' and redis.call('EXISTS', name .. ':queue', name .. ':processing') > 0 then
    return false
  end
  return not (set[1] or set[2] or set[3] or set[4] or tonumber(set[5] or 0) > 0 or set[6] == '3' or set[6] == '5')
end
