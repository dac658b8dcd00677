-- work_come_back(message): the lease of the message has ended, or its delay is over.
-- SAME AS engine/work/due.py:come_back
--
-- include lib/work_die.lua
-- include lib/work_limit.lua
-- include lib/work_record.lua
-- include lib/work_wake.lua
local function work_come_back(message)
  local list, retry_ms = message.list, message.terms.retry_ms
  if message.state == 'leased' and work_is_spent(message) then
    work_die(message, 'lapsed', LAPSED)
  elseif list.is_paused_in and retry_ms > 0 then
    -- As often as it takes: after a long stop several are past.
    local times = math.floor((list.now_ms - message.due_ms) / retry_ms) + 1
    work_leave(message)
    work_enter(message, message.state, message.due_ms + times * retry_ms)
    work_note(message, message.state == 'leased' and HELD or DELAYED, NONE)
  else
    work_leave(message)
    work_note(message, RETURNED, message.state == 'leased' and LAPSED or DELAY_OVER)
    if message.state == 'leased' and not message.is_new then
      message.requeues = message.requeues + 1
    end
    work_enter(message, 'ready', 0)
    list.active_ms = list.now_ms
    work_wake(list)
  end
end
