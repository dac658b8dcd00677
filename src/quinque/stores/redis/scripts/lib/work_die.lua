-- work_die(message, reason): the message was delivered as often as it may be, and is dead.
-- SAME AS engine/work/apply.py:apply_died
--
-- include lib/answer.lua
-- include lib/work_leave.lua
-- include lib/work_enter.lua
local function work_die(message, reason)
  work_leave(message)
  message.reason = reason
  work_enter(message, 'dead', 0)
  ended_ids[#ended_ids + 1] = message.id
end
