-- find_queue(slot, name, family): true if the queue is there, false if it is not, nil if it belongs
-- to another family: then the script answers WRONGTYPE. A vacant worklist makes way.
-- SAME AS stores/embedded/books.py:make_way
--
-- include lib/work_is_vacant.lua
-- include lib/work_forget.lua

local WRONG_TYPE = 'Operation against a key holding the wrong kind of value'

local function find_queue(slot, name, family)
  local owner = redis.call('HGET', slot .. 'queues', name)
  if not owner then
    return false
  elseif owner == family then
    return true
  elseif work_is_vacant(slot, name) then
    work_forget(slot, name)
    return false
  end
  return nil
end
