-- work_turns(list, count): the first of `count` turns that follow each other, for messages that are
-- delivered now: when and in which order, in one number. Where leases do not end it is their score in
-- `due`, so that they are never due. Turns of a slot grow strictly.
--
--   TURNS_FROM + ms × 2048 + number in that millisecond
--
-- SAME AS engine/work/worklist.py:next_turn
--
-- include lib/keep_time.lua

-- So that a turn of 2020 is 2 ^ 52: all are whole numbers in a double until 2089.
local TURNS_FROM, TURNS_PER_MS = 1272189860970496, 2048

local function work_turns(list, count)
  local slot = list.slot
  local kept = redis.call('HMGET', slot .. 'slot', 'at_ms', 'last_turn')
  kept_time_ms = tonumber(kept[1] or 0)
  local first = math.max(tonumber(kept[2] or 0) + 1, TURNS_FROM + list.now_ms * TURNS_PER_MS)
  keep_time(slot, list.now_ms, 'last_turn', string.format('%d', first + count - 1))
  return first
end
