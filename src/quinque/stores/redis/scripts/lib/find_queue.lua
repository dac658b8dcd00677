-- find_queue(slot, name, family, now_ms): true if the queue is there, false if it is not, nil if it
-- belongs to another family: then the script answers WRONGTYPE. A vacant worklist makes way, and so
-- does one whose time has come.
-- SAME AS stores/embedded/books.py:make_way
--
-- wrong_type(what, family, name): WRONG_TYPE tells that the queue, batch, subscription or key of this
-- name is what is of another family (claimed: a queue of which messages are in claims), or that there
-- is no right to the keys of this name, unless it
-- tells of another already (scripts.py:error_of).
--
-- include rarely lib/work_end.lua
-- include lib/work_forget.lua
-- include lib/work_is_vacant.lua

local WRONG_TYPE = 'Operation against a key holding the wrong kind of value'
local wrong_type_is_told = false

local function wrong_type(what, family, name)
  if not wrong_type_is_told then
    wrong_type_is_told = true
    -- A name may have any bytes in it, and an error reply is one line.
    WRONG_TYPE = WRONG_TYPE .. ':' .. what .. ':' .. family .. ':' .. string.gsub(name, '.',
        function(letter) return string.format('%02x', string.byte(letter)) end)
  end
end

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
  local ends_ms, claimed = unpack(
      redis.call('HMGET', slot .. 'worklist:' .. name, 'ends_ms', 'claimed'))
  if ends_ms and tonumber(ends_ms) <= now_ms and not work_end(slot, name, owner, now_ms) then
    return false
  end
  wrong_type(tonumber(claimed or 0) > 0 and 'claimed' or 'queue', owner, name)
  return nil
end
