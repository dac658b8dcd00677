-- work_redrive(message): the dead message is ready, with a whole life before it, and has its key
-- unless another has it by then.
-- SAME AS engine/work/apply.py:apply_redriven
--
-- include lib/work_key_holder.lua
-- include lib/work_leave.lua
-- include lib/work_enter.lua
-- include lib/work_body.lua
-- include lib/work_kept.lua
-- include lib/work_record.lua
-- include lib/work_wake.lua
local function work_redrive(message)
  local list, terms = message.list, message.terms
  work_leave(message)
  message.nacks, message.requeues, message.deliveries = 0, 0, 0
  message.reason = ''
  message.expires_ms = terms.ttl_ms > 0 and list.now_ms + terms.ttl_ms or 0
  redis.call('ZADD', list.slot .. 'expires:' .. list.name,
      terms.ttl_ms > 0 and message.expires_ms or NEVER_MS, message.id)
  if terms.key then
    if work_key_holder(list, terms.key) then
      local text = work_terms_text(terms.ttl_ms, terms.delay_ms, terms.retry_ms,
          terms.max_deliveries, terms.replicas, false, list.name)
      redis.call('HSET', list.slot .. 'messages', message.id,
          work_kept(message.place, text, work_body(list.slot, message)))
      message.terms = work_terms(text)
    else
      redis.call('HSET', list.slot .. 'keys:' .. list.name, terms.key, message.id)
    end
  end
  work_enter(message, 'ready', 0)
  work_note(message, RETURNED, REDRIVEN)
  list.active_ms = list.now_ms
  work_wake(list)
end
