-- work_find(slot, name, family, now_ms, most, is_waited): the worklist as it is now, false if it is
-- not there, nil if the name belongs to another family. Removes a worklist that has expired, or that
-- has been idle for long, unless a client waits on it; if that is not known (nil) it is_idle.
-- SAME AS stores/embedded/worklists.py:settled
--
-- include lib/find_queue.lua
-- include lib/work_close.lua
-- include rarely lib/work_end.lua
-- include lib/work_is_due.lua
-- include lib/work_forget.lua
-- include rarely lib/work_settle.lua
local function work_find(slot, name, family, now_ms, most, is_waited)
  local found = find_queue(slot, name, family, now_ms)
  if not found then
    return found
  end
  local list = work_open(slot, name, now_ms)
  if work_is_due(list) and not list.is_settled then
    list.is_settled = true
    if 0 < list.ends_ms and list.ends_ms <= now_ms then
      opened[slot .. name] = nil
      return work_end(slot, name, family, now_ms) and work_open(slot, name, now_ms)
    end
    work_settle(list, most)
    if list.active_ms + QUEUE_IDLE_MOST_MS <= now_ms and work_is_vacant(slot, name) then
      if is_waited == false then
        work_forget(slot, name)
        opened[slot .. name] = nil
        return false
      elseif is_waited then
        list.spared_ms = now_ms
      end
      list.is_idle = true
    end
  end
  return list
end
