-- work_key_holder(list, key): the id of the message that lives under that key, or false. A claimed
-- message lives, and does not expire: it is not in `messages`. One that is, and is in no worklist any
-- more, is still to be deleted (lib/work_sweep.lua).
-- SAME AS engine/work/decide.py:key_holder
local function work_key_holder(list, key)
  local slot = list.slot
  local id = redis.call('HGET', slot .. 'keys:' .. list.name, key)
  if not id then
    return false
  end
  local expires_ms = redis.call('ZSCORE', slot .. 'expires:' .. list.name, id)
  local is_there
  if expires_ms then
    is_there = tonumber(expires_ms) > list.now_ms
  else
    is_there = redis.call('HEXISTS', slot .. 'messages', id) == 0
  end
  return is_there and id
end
