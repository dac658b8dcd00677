-- work_message_view(message, body): what is shown of a message: queue, id, body (false = it was not
-- asked for), state, place, ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, how much is left
-- of its life, in how many ms something is due (-1 = nothing is), nacks, requeues, deliveries, how
-- often it may be delivered, reason, key (false = no key).
-- SAME AS engine/work/views.py:message_view
--
-- include lib/work_limit.lua
local function work_message_view(message, body)
  local now_ms, terms = message.list.now_ms, message.terms
  return {
    message.list.name,
    message.id,
    body,
    message.state,
    tonumber(message.place),
    terms.ttl_ms,
    terms.delay_ms,
    terms.retry_ms,
    terms.max_deliveries,
    terms.replicas,
    math.max(0, message.expires_ms - now_ms),
    message.due_ms > 0 and math.max(0, message.due_ms - now_ms) or -1,
    message.nacks,
    message.requeues,
    message.deliveries,
    work_limit(message),
    message.reason,
    terms.key,
  }
end
