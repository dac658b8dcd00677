-- work_find_messages(slot, ids, now_ms, most): the messages as they are now, false for each that
-- does not live. Settles first what is due in their worklists, `most` of each kind.
-- SAME AS stores/embedded/worklists.py:settled_message
--
-- include lib/keep_time.lua
-- include lib/work_expire.lua
-- include lib/work_is_due.lua
-- include lib/work_settle.lua
local function work_find_messages(slot, ids, now_ms, most)
  read_time(slot)
  local messages = work_load(slot, ids, now_ms)
  local is_settled = false
  for _, message in ipairs(messages) do
    local list = message and message.list
    if list and work_is_due(list) and not list.is_settled then
      list.is_settled, is_settled = true, true
      work_settle(list, most)
    end
  end
  if is_settled then
    messages = work_load(slot, ids, now_ms)
  end
  for at, message in ipairs(messages) do
    if message and work_is_due(message.list) then
      -- More may be due in its worklist than has been settled.
      local is_over = work_is_over(message, now_ms)
      if 0 < message.due_ms and message.due_ms <= now_ms
          and (not is_over or work_died_before(message)) then
        work_come_back(message)
      elseif is_over and work_is_kept(message)
          and not (0 < message.list.ends_ms and message.list.ends_ms <= now_ms) then
        work_expire(message.list, {message})
      elseif is_over then
        messages[at] = false
      end
    end
  end
  return messages
end
