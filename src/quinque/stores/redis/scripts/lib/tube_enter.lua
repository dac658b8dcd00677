-- tube_enter(tube, task, state, due_ms): make the task, which is in no state, ready, dead, or delayed
-- until due_ms, and set when something is due for it.
-- SAME AS engine/tubes/tube.py:enter_ready
--
-- include lib/answer.lua
-- include lib/tube_lane.lua
-- include lib/tube_load.lua
local function tube_enter(tube, task, state, due_ms)
  task.state, task.session = state, nil
  if state ~= 'ready' then
    redis.call('ZADD', tube.slot .. state .. ':' .. tube.name, task.pri, task.id)
  elseif tube.has_lanes then
    tube_lane(tube, task.lane).has_more = true
    redis.call('ZADD', tube.lane_tasks, 0, tube_lane_member(task))
  else
    redis.call('ZADD', tube.ready, task.pri, task.id)
    ready_names[tube.name] = true
  end
  if tube.has_times then
    due_ms = due_ms or tube_end_ms(task)
    if due_ms then
      redis.call('ZADD', tube.due, string.format('%d', due_ms), task.id)
    else
      redis.call('ZREM', tube.due, task.id)
    end
  end
  tube.is_changed = true
end
