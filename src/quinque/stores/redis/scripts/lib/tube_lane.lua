-- tube_lane(tube, name): the lane as it is, which is looked at again when the script ends, or sooner.
-- It has_more if a task came.
-- tube_lane_member(task): what `lane_tasks` has of the task.
--
-- tube_show(tube, lane, is_taking): if the lane has room, its first ready task may be taken, and no
-- other. Wakes blocked clients, unless the task follows one that was taken: they woke up for that.
-- SAME AS engine/tubes/lanes.py:Lanes
--
-- include lib/answer.lua

local function tube_lane(tube, name)
  local lane = tube.opened_lanes[name]
  if not lane then
    local text = redis.call('HGET', tube.lanes, name)
    local taken, head = string.match(text or '', '^(%d+) (.*)$')
    lane = {name = name, taken = tonumber(taken or 0), head = head or '', kept = text}
    tube.opened_lanes[name] = lane
  end
  return lane
end

local function tube_lane_begin(name)
  return #name .. ':' .. name
end

local function tube_lane_member(task)
  return tube_lane_begin(task.lane) .. string.format('%016.0f', tonumber(task.pri)) .. task.id
end

local function tube_show(tube, lane, is_taking)
  local head, begin = '', tube_lane_begin(lane.name)
  if lane.taken < tube.width then
    -- After the name come digits, and the colon is next to those.
    local first = redis.call('ZRANGEBYLEX', tube.lane_tasks, '[' .. begin, '(' .. begin .. ':',
        'LIMIT', 0, 1)[1]
    if first then
      head = string.sub(first, -16)
      if head ~= lane.head then
        local pri = string.match(string.sub(first, -32, -17), '^0*(%d+)$')
        redis.call('ZADD', tube.ready, pri, head)
      end
      if not is_taking and (head ~= lane.head or lane.has_more and tube.width > 1) then
        ready_names[tube.name] = true
      end
    end
  end
  if lane.head ~= '' and lane.head ~= head then
    redis.call('ZREM', tube.ready, lane.head)
  end
  lane.head = head
  local text = string.format('%d ', lane.taken) .. head
  if text == '0 ' then
    redis.call('HDEL', tube.lanes, lane.name)
  elseif text ~= lane.kept then
    redis.call('HSET', tube.lanes, lane.name, text)
  end
  lane.kept = text
end
