-- tube_find(slot, name, family, now_ms, most): the tube as it is now, false if it is not there, nil if
-- the name belongs to another family. What time made due in it is so, of `most` tasks.
--
-- tube_settle_some(tube, most): so it is of so many more; true.
-- tube_ripen(tube, ids): so it is of these, if more was due; whether it was of any of them.
-- SAME AS stores/embedded/worklists.py:settled
--
-- include lib/find_queue.lua
-- include lib/tube_close.lua
-- include lib/tube_open.lua
-- include rarely lib/tube_settle.lua
local function tube_settle_some(tube, most)
  tube_settle(tube, redis.call('ZRANGEBYSCORE', tube.due, '-inf', tube.now_ms, 'LIMIT', 0, most))
  tube_show_all(tube)
  tube.is_flooded = tube_first_due(tube) <= tube.now_ms
  return true
end

local function tube_find(slot, name, family, now_ms, most)
  local found = find_queue(slot, name, family, now_ms)
  if not found then
    return found
  end
  local tube = tube_open(slot, name, now_ms)
  if 0 < tube.alarm_ms and tube.alarm_ms <= now_ms and not tube.is_settled then
    tube.is_settled = true
    tube_settle_some(tube, most)
  end
  return tube
end

local function tube_ripen(tube, ids)
  if not tube.is_flooded then
    return false
  end
  local ripe = {}
  for _, id in ipairs(ids) do
    local due_ms = redis.call('ZSCORE', tube.due, id)
    if due_ms and tonumber(due_ms) <= tube.now_ms then
      ripe[#ripe + 1] = id
    end
  end
  if #ripe > 0 then
    tube_settle(tube, ripe)
    tube_show_all(tube)
  end
  return #ripe > 0
end
