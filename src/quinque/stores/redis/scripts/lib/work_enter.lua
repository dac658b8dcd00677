-- work_enter(message, state, due_ms): the message, which left its state, is in this one; due_ms 0 =
-- for as long as it lives. What else was changed in it is kept too.
-- SAME AS engine/work/worklist.py: enter_ready, enter_delayed, enter_leased, enter_dead
--
-- include lib/work_close.lua
-- include lib/work_free_key.lua
local function work_enter(message, state, due_ms)
  local list, id = message.list, message.id
  message.state, message.due_ms = state, due_ms
  if state == 'ready' then
    message.is_new = false
    list.came = list.came + 1
  elseif state == 'dead' then
    message.expires_ms = 0
    redis.call('ZREM', list.slot .. 'expires:' .. list.name, id)
    work_free_key(message)
  end
  if state ~= 'leased' then
    redis.call('ZADD', list.slot .. state .. ':' .. list.name, message.place, id)
  end
  if state == 'leased' or state == 'delayed' then
    redis.call('ZADD', list.slot .. 'due:' .. list.name, due_ms > 0 and due_ms or NEVER_MS, id)
  end
  redis.call('HSET', list.slot .. 'message:' .. id, 'state', state, 'due_ms', due_ms,
      'expires_ms', message.expires_ms, 'nacks', message.nacks, 'requeues', message.requeues,
      'deliveries', message.deliveries, 'is_new', message.is_new and 1 or 0,
      'reason', message.reason)
  list.is_changed = true
end
