-- work_remove(message): the message is gone.
-- SAME AS engine/work/worklist.py:remove
--
-- include lib/answer.lua
-- include lib/work_leave.lua
-- include lib/work_free_key.lua
local function work_remove(message)
  local list, id = message.list, message.id
  work_leave(message)
  if message.state ~= 'dead' then
    redis.call('ZREM', list.slot .. 'expires:' .. list.name, id)
  end
  redis.call('ZREM', list.slot .. 'messages', id)
  redis.call('DEL', list.slot .. 'message:' .. id)
  work_free_key(message)
  ended_ids[#ended_ids + 1] = id
end
