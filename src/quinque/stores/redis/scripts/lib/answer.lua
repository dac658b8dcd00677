-- answer(result): what a script answers with.
--
--   1  a list: when something is next due in a queue of the slot (ms), -1 = never; and when a timer
--      is, from a script that says tells_timers: those that set them, and those of ticks
--   2  queues that got something to deliver; a script notes them in ready_names
--   3  ids that ended; a script appends them to ended_ids
--   4  the result
--   5  what was recorded, if that is counted, as lib/record.lua has it; else there is no fifth
--
-- Other brokers are told of 2, with the slot's prefix before the name, and of 3 if somebody waits
-- for an end in this slot (wakeups.py). What the script had to record is on record.
--
-- include lib/record.lua
-- include lib/slot_prefix.lua

local ready_names, ended_ids, tells_timers = {}, {}, false

local function first_ms(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or -1)
end

local function answer(result)
  local counted = record_close()
  local slot = slot_prefix(KEYS[1])
  local alarms = {first_ms(slot .. 'alarms'), tells_timers and first_ms(slot .. 'timers') or nil}
  local ready = {}
  for name in pairs(ready_names) do
    ready[#ready + 1] = name
    redis.call('PUBLISH', 'quinque:ready', slot .. name)
  end
  if #ended_ids > 0 and redis.call('EXISTS', slot .. 'awaited') == 1 then
    redis.call('PUBLISH', 'quinque:ended', table.concat(ended_ids, ' '))
  end
  return {alarms, ready, ended_ids, result, counted}
end
