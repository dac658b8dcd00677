-- work_unfound(list, ids): these ids of the worklist have no message any more, and leave it. The log
-- of Redis says so: only a program that is no broker makes such ids, or lost data.
-- SAME AS nothing: an embedded store has no ids apart from their messages
--
-- include lib/many.lua
-- include lib/work_record.lua

local UNFOUND_SHOWN, LOG_WARNING = 10, 3

local function work_unfound(list, ids)
  for _, kind in ipairs({'ready', 'delayed', 'due', 'dead', 'expires'}) do
    many('ZREM', list.slot .. kind .. ':' .. list.name, ids)
  end
  list.is_changed = true
  work_record(list, REMOVED, NONE, ids)
  redis.log(LOG_WARNING, string.format('quinque: dropped %d ids of queue %q without a message: %s',
      #ids, list.name, table.concat(ids, ' ', 1, math.min(#ids, UNFOUND_SHOWN))))
end
