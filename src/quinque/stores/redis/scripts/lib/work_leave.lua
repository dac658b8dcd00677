-- work_leave(message): the message is in no index of its state any more.
-- SAME AS engine/work/worklist.py:leave
local function work_leave(message)
  local list = message.list
  if message.state ~= 'leased' then
    redis.call('ZREM', list.slot .. message.state .. ':' .. list.name, message.id)
  end
  if message.state == 'leased' or message.state == 'delayed' then
    redis.call('ZREM', list.slot .. 'due:' .. list.name, message.id)
  end
  list.is_changed = true
end
