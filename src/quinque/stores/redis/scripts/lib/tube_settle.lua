-- tube_settle(tube, ids): carry out what is due for these tasks: remove them, make them ready, or end
-- their delay.
-- SAME AS engine/tubes/due.py:settle
--
-- include lib/tube_count.lua
-- include lib/tube_enter.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include lib/tube_remove.lua
-- include lib/tube_state.lua
local function tube_settle(tube, ids)
  local over, lapsed, ripe = {}, {}, {}
  for at, task in ipairs(tube_state(tube, tube_load(tube, ids))) do
    if task then
      local end_ms = tube_end_ms(task)
      if end_ms and end_ms <= tube.now_ms then
        over[#over + 1] = task
        tube_count(tube, 'ttr', task.state == 'leased' and 1 or 0)
        tube_count(tube, 'delay', task.state == 'delayed' and 1 or 0)
      elseif task.state == 'leased' or task.state == 'delayed' then
        local those = task.state == 'leased' and lapsed or ripe
        those[#those + 1] = ids[at]
        tube_count(tube, task.state == 'leased' and 'ttr' or 'delay', 1)
        tube_leave(tube, task)
        tube_enter(tube, task, 'ready')
      end
    else
      redis.call('ZREM', tube.due, ids[at])
    end
  end
  tube_remove(tube, over, EXPIRED, NONE)
  tube_count(tube, 'ttl', #over)
  tube_count(tube, 'delete', #over)
  tube_record(tube, RETURNED, LAPSED, lapsed)
  tube_record(tube, RETURNED, DELAY_OVER, ripe)
  tube.is_changed = true
end
