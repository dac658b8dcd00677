-- work_free_key(message): another message may have the key, if this one has it.
-- SAME AS engine/work/worklist.py:free_key
local function work_free_key(message)
  local key, keys = message.terms.key, message.list.slot .. 'keys:' .. message.list.name
  if key and redis.call('HGET', keys, key) == message.id then
    redis.call('HDEL', keys, key)
  end
end
