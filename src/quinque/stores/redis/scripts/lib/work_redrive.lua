-- work_redrive(message): the dead message is ready, with a whole life before it, and has its key
-- unless another has it by then.
-- SAME AS engine/work/apply.py:apply_redriven
--
-- include lib/work_key_holder.lua
-- include lib/work_leave.lua
-- include lib/work_enter.lua
-- include lib/work_wake.lua
local function work_redrive(message)
  local list = message.list
  work_leave(message)
  message.nacks, message.requeues, message.deliveries = 0, 0, 0
  message.reason = ''
  message.expires_ms = list.now_ms + message.ttl_ms
  redis.call('ZADD', list.slot .. 'expires:' .. list.name, message.expires_ms, message.id)
  if message.key then
    if work_key_holder(list, message.key) then
      redis.call('HDEL', list.slot .. 'message:' .. message.id, 'key')
      message.key = false
    else
      redis.call('HSET', list.slot .. 'keys:' .. list.name, message.key, message.id)
    end
  end
  work_enter(message, 'ready', 0)
  list.active_ms = list.now_ms
  work_wake(list)
end
