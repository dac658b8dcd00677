-- work_free_key(message): another message may have the key, if this one has it.
-- SAME AS engine/work/worklist.py:free_key
local function work_free_key(message)
  local keys = message.list.slot .. 'keys:' .. message.list.name
  if message.key and redis.call('HGET', keys, message.key) == message.id then
    redis.call('HDEL', keys, message.key)
  end
end
