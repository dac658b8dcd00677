-- tube_unfound(tube, ids): these ids of the tube have no task any more, and leave it. All lanes are
-- looked at, since only the task would tell which one an id is the first of.
-- SAME AS nothing: an embedded store has no ids apart from their tasks
--
-- include lib/log_unfound.lua
-- include lib/many.lua
-- include lib/tube_lane.lua
-- include lib/tube_record.lua

local function tube_unfound(tube, ids)
  for _, kind in ipairs({'ready', 'delayed', 'dead', 'due'}) do
    many('ZREM', tube.slot .. kind .. ':' .. tube.name, ids)
  end
  many('HDEL', tube.taken, ids)
  if tube.has_lanes then
    local is_unfound, lanes = {}, redis.call('HGETALL', tube.lanes)
    for _, id in ipairs(ids) do
      is_unfound[id] = true
    end
    for at = 1, #lanes, 2 do
      local name, head = lanes[at], string.match(lanes[at + 1], '^%d+ (.*)$')
      if is_unfound[head] then
        local begin = tube_lane_begin(name)
        many('ZREM', tube.lane_tasks, redis.call('ZRANGEBYLEX', tube.lane_tasks, '[' .. begin,
            '(' .. begin .. ':', 'LIMIT', 0, 1))
        tube_lane(tube, name)  -- shows its next task when the script ends, or sooner
      end
    end
  end
  tube.is_changed = true
  tube_record(tube, REMOVED, NONE, ids)
  log_unfound(tube.name, ids)
end
