-- work_forget(slot, name): the worklist, in which no message is left, is gone.
local function work_forget(slot, name)
  redis.call('HDEL', slot .. 'queues', name)
  for _, kind in ipairs({'worklists', 'busy', 'alarms'}) do
    redis.call('ZREM', slot .. kind, name)
  end
  for _, kind in ipairs({'worklist', 'ready', 'delayed', 'dead', 'due', 'expires', 'keys'}) do
    redis.call('UNLINK', slot .. kind .. ':' .. name)
  end
end
