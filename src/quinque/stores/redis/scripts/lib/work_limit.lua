-- work_limit(message): how often the message may be delivered, its own limit or its worklist's;
-- 0 = as often as it takes. work_is_spent(message): whether it has been.
-- SAME AS engine/work/worklist.py:limit_of
local function work_limit(message)
  return message.terms.max_deliveries > 0 and message.terms.max_deliveries
      or message.list.max_deliveries
end

local function work_is_spent(message)
  local limit = work_limit(message)
  return 0 < limit and limit <= message.deliveries
end
