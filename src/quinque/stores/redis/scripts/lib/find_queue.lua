-- find_queue(slot, name, family, now_ms): true if the queue is there, false if it is not, nil if it
-- belongs to another family: then the script answers WRONGTYPE. A vacant worklist makes way, and so
-- does one whose time has come.
-- SAME AS stores/embedded/books.py:make_way
--
-- include rarely lib/work_end.lua
-- include lib/work_forget.lua
-- include lib/work_is_vacant.lua

local WRONG_TYPE = 'Operation against a key holding the wrong kind of value'

local function find_queue(slot, name, family, now_ms)
  local owner = redis.call('HGET', slot .. 'queues', name)
  if not owner then
    return false
  elseif owner == family then
    return true
  elseif work_is_vacant(slot, name) then
    work_forget(slot, name)
    return false
  end
  local ends_ms = redis.call('HGET', slot .. 'worklist:' .. name, 'ends_ms')
  if ends_ms and tonumber(ends_ms) <= now_ms and not work_end(slot, name, owner, now_ms) then
    return false
  end
  return nil
end
