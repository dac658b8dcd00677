-- items_open(slot, name, now_ms): the queue of items, which is there, as it was last left; once per
-- script. The keys of its items are those of Redis Work Queue, and every client of that uses them:
--
--   <name>:queue                     LIST    ids; new ones on the left, the first one on the right
--   <name>:processing                LIST    ids that a worker has; the last one on the left
--   <name>:item:<id>                 STRING  the data; an item is there while this is
--   <name>:lease:<id>                STRING  is there while a lease runs, and so is
--   <name>:leased_by_session:<id>    STRING  the one that older clients look at
--
-- In the slot lie what was counted (`worklist`) and, of leases that a broker gave or has seen, when
-- they end (`due`).
local opened_items = {}

local ITEMS_COUNTED = {'active_ms', 'spared_ms', 'came', 'went', 'clean_ms'}

local function items_open(slot, name, now_ms)
  local list = opened_items[name]
  if list then
    return list
  end
  local fields = redis.call('HMGET', slot .. 'worklist:' .. name, 'active_ms', 'spared_ms', 'came',
      'went', 'clean_ms', 'since_ms', 'family')
  list = {
    slot = slot,
    name = name,
    now_ms = now_ms,
    family = fields[7],
    since_ms = tonumber(fields[6] or now_ms),
    alarm_ms = tonumber(redis.call('ZSCORE', slot .. 'alarms', name) or 0),
    queue = name .. ':queue',
    processing = name .. ':processing',
    item = name .. ':item:',
    lease = name .. ':lease:',
    old_lease = name .. ':leased_by_session:',
    due = slot .. 'due:' .. name,
    kept = {},
  }
  for at, field in ipairs(ITEMS_COUNTED) do
    list[field] = tonumber(fields[at] or field == 'active_ms' and now_ms or 0)
    list.kept[field] = tonumber(fields[at])
  end
  opened_items[name] = list
  return list
end
