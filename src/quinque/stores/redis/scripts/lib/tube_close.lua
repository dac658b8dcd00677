-- tube_close(): what the script changed in tubes is kept, and their alarms are set.
--
-- tube_show_all(tube, is_taking): of lanes that changed, those tasks may be taken that are first now.
-- tube_first_due(tube): when something is next due in it (ms).
--
-- include lib/keep_time.lua
-- include lib/tube_lane.lua
-- include lib/tube_open.lua

local TUBE_NEVER_MS = 2 ^ 62  -- model/limits.py:NEVER_MS

local function tube_first_due(tube)
  local first = redis.call('ZRANGE', tube.due, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) or TUBE_NEVER_MS
end

local function tube_show_all(tube, is_taking)
  for _, lane in pairs(tube.opened_lanes) do
    tube_show(tube, lane, is_taking)
  end
  tube.opened_lanes = {}
end

local function tube_close()
  for _, tube in pairs(opened_tubes) do
    if tube.is_changed then
      local slot, name = tube.slot, tube.name
      tube_show_all(tube)
      for what, by in pairs(tube.counts) do
        if by > 0 then
          redis.call('HINCRBY', slot .. 'worklist:' .. name, what, by)
        end
      end
      if tube.has_times then
        local soonest_ms = tube_first_due(tube)
        if soonest_ms >= TUBE_NEVER_MS then
          soonest_ms = 0
          if tube.alarm_ms > 0 then
            redis.call('ZREM', slot .. 'alarms', name)
          end
        elseif soonest_ms ~= tube.alarm_ms then
          redis.call('ZADD', slot .. 'alarms', string.format('%d', soonest_ms), name)
        end
        tube.alarm_ms = soonest_ms
      end
      tube.counts, tube.is_changed = {}, false
      keep_time(slot, tube.now_ms)
    end
  end
end
