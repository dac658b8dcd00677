-- work_find_message(slot, id, now_ms, most): the message as it is now, or nil if it does
-- not live. What is due in its worklist is settled first, `most` of each kind.
-- SAME AS stores/embedded/worklists.py:settled_message
--
-- include lib/work_settle.lua
local function work_find_message(slot, id, now_ms, most)
  local message = work_load(slot, id, now_ms)
  if not message then
    return nil
  end
  local list = message.list
  if list.alarm_ms > 0 and list.alarm_ms <= now_ms then
    if not list.is_settled then
      list.is_settled = true
      work_settle(list, most)
      message = work_load(slot, id, now_ms)
      if not message then
        return nil
      end
    end
    -- More may be due in its worklist than has been settled.
    local is_over = work_is_over(message, now_ms)
    if 0 < message.due_ms and message.due_ms <= now_ms
        and (not is_over or work_died_before(message)) then
      work_come_back(message)
    elseif is_over then
      return nil
    end
  end
  return message
end
