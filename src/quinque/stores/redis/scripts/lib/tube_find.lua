-- tube_find(slot, name, family, now_ms, most): the tube as it is now, false if it is not there, nil if
-- the name belongs to another family. Carries out what is due in it, for up to `most` tasks,
-- if the script may settle as many.
--
-- tube_settle_some(tube, most): the same for up to `most` more; returns true.
-- tube_ripen(tube, ids): the same for these, if more was due; whether it was for any of them.
-- SAME AS stores/embedded/worklists.py:settled
--
-- include lib/find_queue.lua
-- include lib/tube_close.lua
-- include lib/tube_open.lua
-- include rarely lib/tube_settle.lua
-- include lib/settle_room.lua
local function tube_settle_some(tube, most)
  local ids = redis.call('ZRANGEBYSCORE', tube.due, '-inf', tube.now_ms, 'LIMIT', 0,
      settle_room(most))
  settle_note(#ids)
  tube_settle(tube, ids)
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
