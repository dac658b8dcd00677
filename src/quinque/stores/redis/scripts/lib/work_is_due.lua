-- work_is_due(list): whether time made something due in the worklist that may not be settled yet.
local function work_is_due(list)
  return list.alarm_ms > 0 and list.alarm_ms <= list.now_ms
end
