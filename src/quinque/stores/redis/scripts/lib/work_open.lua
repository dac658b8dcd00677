-- work_open(slot, name, now_ms, family): the worklist, which is there, as it was last left; once per
-- script. The family need be said only of one that is new. `kept` has what is counted as it is on
-- record; lib/work_close.lua keeps what differs.
--
--   is_reliable    the family keeps empty worklists, the order of deliveries, and ids of its own
--   keeps_expired  messages that expire are dead; else they are gone
--   ends_ms        when the worklist goes, with all that is in it; 0 = it stays
-- SAME AS model/families.py:RELIABLE
local opened = {}

local WORK_COUNTED = {'active_ms', 'spared_ms', 'came', 'went', 'rate_full_us', 'refused_until_ms'}

local function work_open(slot, name, now_ms, family)
  local list = opened[slot .. name]
  if list then
    return list
  end
  local fields = redis.call('HMGET', slot .. 'worklist:' .. name, 'active_ms', 'spared_ms', 'came',
      'went', 'rate_full_us', 'refused_until_ms', 'since_ms', 'is_paused_in', 'is_paused_out',
      'max_deliveries', 'rate_count', 'rate_ms', 'family', 'ends_ms', 'keeps_expired')
  family = fields[13] or family
  list = {
    slot = slot,
    name = name,
    now_ms = now_ms,
    family = family,
    is_reliable = family == '3',
    ends_ms = tonumber(fields[14] or 0),
    since_ms = tonumber(fields[7] or now_ms),
    is_paused_in = fields[8] == '1',
    is_paused_out = fields[9] == '1',
    max_deliveries = tonumber(fields[10] or 0),
    rate_count = tonumber(fields[11] or 0),
    rate_ms = tonumber(fields[12] or 0),
    keeps_expired = fields[15] == '1',
    alarm_ms = tonumber(redis.call('ZSCORE', slot .. 'alarms', name) or 0),
    kept = {},
  }
  for at, field in ipairs(WORK_COUNTED) do
    list[field] = tonumber(fields[at] or field == 'active_ms' and now_ms or 0)
    list.kept[field] = list[field]
  end
  opened[slot .. name] = list
  return list
end
