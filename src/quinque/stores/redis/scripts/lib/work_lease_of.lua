-- work_lease_of(message): what tells the last delivery of a leased message from its others.
-- SAME AS engine/work/decide.py:lease_of
local function work_lease_of(message)
  return message.due_ms > 0 and message.due_ms or message.turn
end
