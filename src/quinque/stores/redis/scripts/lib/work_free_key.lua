-- work_free_key(message): another message may have the key, if this one has it.
-- work_has_key(message): whether it has the key that it was added with.
-- SAME AS engine/work/worklist.py:free_key
local function work_has_key(message)
  local list = message.list
  return redis.call('HGET', list.slot .. 'keys:' .. list.name, message.terms.key) == message.id
end

local function work_free_key(message)
  local list, key = message.list, message.terms.key
  if key and work_has_key(message) then
    redis.call('HDEL', list.slot .. 'keys:' .. list.name, key)
  end
end
