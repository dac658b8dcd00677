-- answer(result): what a script answers with.
--
--   1  for each of KEYS, which are keys of slots, when something is next due there (ms), -1 = never
--   2  queues that got something to deliver; a script notes them in ready_names
--   3  ids that ended; a script appends them to ended_ids
--
-- Other brokers are told of 2 and, if one listens, of 3 (wakeups.py).
--   4  the result
--
-- include lib/slot_prefix.lua

local ready_names, ended_ids = {}, {}

local function answer(result)
  local alarms, ready = {}, {}
  for at, slot_key in ipairs(KEYS) do
    local first = redis.call('ZRANGE', slot_prefix(slot_key) .. 'alarms', 0, 0, 'WITHSCORES')
    alarms[at] = first[2] and tonumber(first[2]) or -1
  end
  for name in pairs(ready_names) do
    ready[#ready + 1] = name
    redis.call('PUBLISH', 'quinque:ready', name)
  end
  for _, id in ipairs(ended_ids) do
    if redis.call('PUBLISH', 'quinque:ended', id) == 0 then
      break
    end
  end
  return {alarms, ready, ended_ids, result}
end
