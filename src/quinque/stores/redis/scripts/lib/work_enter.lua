-- work_enter(message, state, due_ms): put the message, which left its state, into this one; due_ms 0 =
-- for as long as it lives. Stores its other changes too.
-- SAME AS engine/work/worklist.py: enter_ready, enter_delayed, enter_leased, enter_dead
--
-- include lib/work_close.lua
-- include lib/work_free_key.lua

local function work_progress_text(message)
  return string.format('%d %d %d %d ', message.nacks, message.requeues, message.deliveries,
      message.is_new and 1 or 0) .. message.reason
end

-- What is known without it, lib/work_load.lua says when, is not kept.
local function work_keep_progress(message)
  local progress, state = message.list.slot .. 'progress', message.state
  if message.nacks + message.requeues > 0 or message.reason ~= ''
      or message.deliveries ~= (state == 'leased' and 1 or 0)
      or message.is_new ~= (state == 'delayed') then
    redis.call('HSET', progress, message.id, work_progress_text(message))
    message.has_progress = true
  elseif message.has_progress then
    redis.call('HDEL', progress, message.id)
    message.has_progress = false
  end
end

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
  work_keep_progress(message)
  list.is_changed = true
end
