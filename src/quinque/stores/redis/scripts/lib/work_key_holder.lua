-- work_key_holder(list, key): the id of the message that lives under that key, or false. A claimed
-- message lives, and does not expire.
-- SAME AS engine/work/decide.py:key_holder
local function work_key_holder(list, key)
  local id = redis.call('HGET', list.slot .. 'keys:' .. list.name, key)
  if not id then
    return false
  end
  local expires_ms = redis.call('ZSCORE', list.slot .. 'expires:' .. list.name, id)
  return (not expires_ms or tonumber(expires_ms) > list.now_ms) and id
end
