-- work_make(slot, name, family, now_ms): a new worklist.
--
-- include lib/slot_begin.lua
-- include lib/work_open.lua
local function work_make(slot, name, family, now_ms)
  local list = work_open(slot, name, now_ms, family)
  slot_begin(slot)
  redis.call('HSET', slot .. 'queues', name, family)
  redis.call('ZADD', slot .. 'worklists',
      redis.call('HINCRBY', slot .. 'slot', 'last_number', 1), name)
  redis.call('HSET', slot .. 'worklist:' .. name, 'since_ms', now_ms, 'active_ms', now_ms,
      'family', family)
  list.is_changed = true
  return list
end
