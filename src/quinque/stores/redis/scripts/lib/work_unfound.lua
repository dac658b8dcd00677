-- work_unfound(list, ids): these ids of the worklist have no message any more, and leave it.
-- SAME AS nothing: an embedded store has no ids apart from their messages
--
-- include lib/log_unfound.lua
-- include lib/many.lua
-- include lib/work_record.lua

local function work_unfound(list, ids)
  for _, kind in ipairs({'ready', 'delayed', 'due', 'dead', 'expires'}) do
    many('ZREM', list.slot .. kind .. ':' .. list.name, ids)
  end
  list.is_changed = true
  work_record(list, REMOVED, NONE, ids)
  log_unfound(list.name, ids)
end
