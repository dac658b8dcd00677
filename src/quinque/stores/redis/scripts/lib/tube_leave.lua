-- tube_leave(tube, task): take the task out of its state, which is known. Its entry in `due` stays.
-- tube_leave_all(tube, tasks): the same for these; taken tasks, and ready ones, leave together.
-- SAME AS engine/tubes/tube.py:leave
--
-- tube_held_as(tube, id): what `taken_by` of a session has of the task.
--
-- include lib/many.lua
-- include lib/tube_lane.lua
local function tube_held_as(tube, id)
  return id .. ':' .. tube.name
end

local function tube_leave(tube, task)
  local state, id = task.state, task.id
  if state == 'leased' then
    redis.call('HDEL', tube.taken, id)
    redis.call('ZREM', tube.slot .. 'taken_by:' .. task.session, tube_held_as(tube, id))
    if tube.has_lanes then
      local lane = tube_lane(tube, task.lane)
      lane.taken = math.max(0, lane.taken - 1)
    end
  elseif state ~= 'ready' then
    redis.call('ZREM', tube.slot .. state .. ':' .. tube.name, id)
  elseif tube.has_lanes then
    tube_lane(tube, task.lane)
    redis.call('ZREM', tube.lane_tasks, tube_lane_member(task))
  else
    redis.call('ZREM', tube.ready, id)
  end
  tube.is_changed = true
end

local function tube_leave_all(tube, tasks)
  local ready, ids, held = {}, {}, {}
  for _, task in ipairs(tasks) do
    if task.state == 'leased' then
      local own = held[task.session] or {}
      held[task.session] = own
      ids[#ids + 1], own[#own + 1] = task.id, tube_held_as(tube, task.id)
      if tube.has_lanes then
        local lane = tube_lane(tube, task.lane)
        lane.taken = math.max(0, lane.taken - 1)
      end
    elseif task.state == 'ready' and not tube.has_lanes then
      ready[#ready + 1] = task.id
    else
      tube_leave(tube, task)
    end
  end
  many('ZREM', tube.ready, ready)
  many('HDEL', tube.taken, ids)
  for session, own in pairs(held) do
    many('ZREM', tube.slot .. 'taken_by:' .. session, own)
  end
  tube.is_changed = true
end
