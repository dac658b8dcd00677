-- copy_in_worklist.lua: a worklist is there as it was elsewhere, but for its messages.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  at_ms            the latest time that is known elsewhere
--          3  queue            the worklist
--          4  stamp_us         the newest stamp that is known elsewhere
--          5.. field, value    what was counted, and is set for it; what is 0 is left out
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/work/apply.py:apply_worklist_kept

-- include lib/copy_time.lua
-- include lib/work_make.lua
-- include lib/work_answer.lua

local slot, family, at_ms, queue = slot_prefix(KEYS[1]), ARGV[1], tonumber(ARGV[2]), ARGV[3]
local stamp_us = tonumber(ARGV[4])

if not redis.call('HGET', slot .. 'queues', queue) then
  work_make(slot, queue, family, at_ms)
end
for at = 5, #ARGV, 2 do
  redis.call('HSET', slot .. 'worklist:' .. queue, ARGV[at], ARGV[at + 1])
end
opened[slot .. queue] = nil
local list = work_open(slot, queue, at_ms)
list.is_changed = true
copy_time(slot, at_ms, stamp_us)
if list.is_reliable then
  -- No id that was made elsewhere is later than the last moment there.
  local last_ms = math.max(at_ms, math.floor(stamp_us / 1000)) + 1
  if last_ms > tonumber(string.match(redis.call('HGET', KEYS[1], 'last_id') or '0', '^%d+')) then
    redis.call('HSET', KEYS[1], 'last_id', string.format('%d-0', last_ms))
  end
end
return work_answer(false)
