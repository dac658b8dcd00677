-- copy_in_tasks.lua: tasks of a tube, which is there, are in it as they were elsewhere.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  at_ms            the latest time that is known elsewhere
--          2  queue            the tube
--          3.. id, pri, lane, state, created_ms, ttl_ms, ttr_ms, due_ms, session, body  of each
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/tubes/apply.py:apply_task_kept

-- include lib/tube_answer.lua
-- include lib/tube_enter.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_open.lua

local FIELDS = 10  -- of each task

local slot, at_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local tube = tube_open(slot, queue, at_ms)

local function take(task, session, due_ms)
  redis.call('HSET', tube.taken, task.id, session)
  redis.call('ZADD', slot .. 'taken_by:' .. session, ARGV[1], tube_held_as(tube, task.id))
  redis.call('SADD', slot .. 'takers', session)
  local end_ms = tube.ends_taken and tube_end_ms(task)
  due_ms = due_ms > 0 and due_ms or end_ms
  if due_ms and tube.has_times then
    due_ms = end_ms and math.min(due_ms, end_ms) or due_ms
    redis.call('ZADD', tube.due, string.format('%d', due_ms), task.id)
  end
  if tube.has_lanes then
    local lane = tube_lane(tube, task.lane)
    lane.taken = lane.taken + 1
  end
end

for at = 3, #ARGV, FIELDS do
  local task = {
    id = ARGV[at],
    pri = ARGV[at + 1],
    lane = ARGV[at + 2],
    created_ms = tonumber(ARGV[at + 4]),
    ttl_ms = tonumber(ARGV[at + 5]),
    ttr_ms = tonumber(ARGV[at + 6]),
    body = ARGV[at + 9],
  }
  local state, due_ms, session = ARGV[at + 3], tonumber(ARGV[at + 7]), ARGV[at + 8]
  -- If it is there, it came before the copy was interrupted.
  if redis.call('HEXISTS', tube.tasks, task.id) == 0 then
    tube_keep(tube, task)
    if state == 'leased' then
      take(task, session, due_ms)
    else
      tube_enter(tube, task, state, state == 'delayed' and due_ms or nil)
    end
  end
end
tube.is_changed = true
return tube_answer(false)
