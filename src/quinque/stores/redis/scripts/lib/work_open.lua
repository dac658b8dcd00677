-- work_open(slot, name, now_ms): the worklist, which is there, as it was last left; once per script.
local opened = {}

local function work_open(slot, name, now_ms)
  if opened[slot .. name] then
    return opened[slot .. name]
  end
  local fields = redis.call('HMGET', slot .. 'worklist:' .. name, 'since_ms', 'active_ms',
      'spared_ms', 'came', 'went', 'is_paused_in', 'is_paused_out', 'max_deliveries',
      'rate_count', 'rate_ms', 'rate_full_us', 'refused_until_ms')
  local list = {
    slot = slot,
    name = name,
    now_ms = now_ms,
    since_ms = tonumber(fields[1] or now_ms),
    active_ms = tonumber(fields[2] or now_ms),
    spared_ms = tonumber(fields[3] or 0),
    came = tonumber(fields[4] or 0),
    went = tonumber(fields[5] or 0),
    is_paused_in = fields[6] == '1',
    is_paused_out = fields[7] == '1',
    max_deliveries = tonumber(fields[8] or 0),
    rate_count = tonumber(fields[9] or 0),
    rate_ms = tonumber(fields[10] or 0),
    rate_full_us = tonumber(fields[11] or 0),
    refused_until_ms = tonumber(fields[12] or 0),
    alarm_ms = tonumber(redis.call('ZSCORE', slot .. 'alarms', name) or 0),
  }
  opened[slot .. name] = list
  return list
end
