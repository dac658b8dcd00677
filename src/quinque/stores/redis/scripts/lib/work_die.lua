-- work_die(message, reason, why): the message was delivered as often as it may be, or has expired where
-- such messages are kept, and is dead; on record it is for `why`: LAPSED, NACKED or TTL_OVER.
-- SAME AS engine/work/apply.py:apply_died
--
-- include lib/answer.lua
-- include lib/work_leave.lua
-- include lib/work_enter.lua
-- include lib/work_record.lua
local function work_die(message, reason, why)
  work_leave(message)
  message.reason = reason
  work_enter(message, 'dead', 0)
  ended_ids[#ended_ids + 1] = message.id
  work_note(message, DEAD, why)
end
