-- copy_in_items.lua: items are in a queue, which is there, as they were elsewhere.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  at_ms            the latest time that is known elsewhere
--          2  queue            its name
--          3.. id, state, due_ms, data  of each, in their order
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/work/apply.py:apply_work_kept

-- include lib/items_lease_ends.lua
-- include lib/items_answer.lua

-- A lease that is over by the clock of Redis may run still by that of its broker, which ends it.
local SPARE_MS = 600000

local slot, at_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local list = items_open(slot, queue, at_ms)
local time = redis.call('TIME')
local now_ms = time[1] * 1000

for at = 3, #ARGV, 4 do
  local id, is_leased, due_ms, data = ARGV[at], ARGV[at + 1] == 'leased', ARGV[at + 2], ARGV[at + 3]
  -- If it is there, it came before the copy was interrupted.
  if redis.call('SETNX', list.item .. id, data) == 1 then
    redis.call('LPUSH', is_leased and list.processing or list.queue, id)
    if is_leased then
      local left_ms = tonumber(due_ms) - now_ms
      local kept_ms = string.format('%d', left_ms > 0 and left_ms or SPARE_MS)
      redis.call('SET', list.lease .. id, items_stamp(due_ms), 'PX', kept_ms)
      redis.call('SET', list.old_lease .. id, items_stamp(due_ms), 'PX', kept_ms)
      redis.call('ZADD', list.due, due_ms, id)
    else
      ready_names[queue] = true
    end
  end
end
list.is_changed = true
return items_answer(false)
