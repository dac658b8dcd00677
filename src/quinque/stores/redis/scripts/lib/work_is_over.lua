-- work_is_over(message, now_ms): whether its life has ended, or that of its worklist, though it may
-- not be removed yet.
-- SAME AS engine/work/decide.py:is_over
--
-- work_died_before(message): whether it was dead before it expired, and so did not.
-- SAME AS engine/work/due.py:_died_before
--
-- include lib/work_limit.lua
local function work_is_over(message, now_ms)
  local ends_ms = message.list.ends_ms
  return 0 < message.expires_ms and message.expires_ms <= now_ms or 0 < ends_ms and ends_ms <= now_ms
end

local function work_died_before(message)
  return message.state == 'leased' and 0 < message.due_ms
      and message.due_ms < message.expires_ms and work_is_spent(message)
end
