-- answer(result): what a script answers with.
--
--   1  a list: when something is next due in the slot (ms), -1 = never
--   2  queues that got something to deliver; a script notes them in ready_names
--   3  ids that ended; a script appends them to ended_ids
--   4  the result
--
-- Other brokers are told of 2, with the slot's prefix before the name, and of 3 if somebody waits
-- for an end in this slot (wakeups.py).
--
-- include lib/slot_prefix.lua

local ready_names, ended_ids = {}, {}

local function answer(result)
  local slot = slot_prefix(KEYS[1])
  local first = redis.call('ZRANGE', slot .. 'alarms', 0, 0, 'WITHSCORES')
  local ready = {}
  for name in pairs(ready_names) do
    ready[#ready + 1] = name
    redis.call('PUBLISH', 'quinque:ready', slot .. name)
  end
  if #ended_ids > 0 and redis.call('EXISTS', slot .. 'awaited') == 1 then
    redis.call('PUBLISH', 'quinque:ended', table.concat(ended_ids, ' '))
  end
  return {{first[2] and tonumber(first[2]) or -1}, ready, ended_ids, result}
end
