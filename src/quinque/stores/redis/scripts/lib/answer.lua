-- answer(result): what a script answers with.
--
--   1  a list: when something is next due in a queue of the slot (ms), -1 = never; and when a timer
--      is, from a script that says tells_timers: those that set them, and those of ticks
--   2  queues that got something to deliver; a script notes them in ready_names
--   3  ids that ended; a script appends them to ended_ids
--   4  the result
--   5  what was recorded, if that is counted, as lib/record.lua has it; else nothing
--   6  names of queues, each with how many messages of it expired and are gone, if any did; a script
--      counts them in expired_counts
--
-- Publishes 2 to other brokers, with the slot's prefix before the name, and 3 if a client waits for
-- an end in this slot (wakeups.py). Writes the entries of the script to the record.
--
-- include lib/record.lua
-- include lib/slot_prefix.lua

local ready_names, ended_ids, tells_timers = {}, {}, false
local expired_counts = {}

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
  if not next(expired_counts) then  -- as nearly always
    return {alarms, ready, ended_ids, result, counted}
  end
  local expired = {}
  for name, count in pairs(expired_counts) do
    expired[#expired + 1], expired[#expired + 2] = name, count
  end
  return {alarms, ready, ended_ids, result, counted or false, expired}
end
