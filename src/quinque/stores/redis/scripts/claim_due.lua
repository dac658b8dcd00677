-- claim_due.lua: what time made due in the claims of a slot is carried out, or a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
-- RETURNS  1 if there is more to be done at once, else 0
-- ERRORS   none
-- SAME AS  engine/claims/due.py

-- include lib/claim_find.lua
-- include lib/claim_names.lua
-- include lib/claim_subscription.lua
-- include lib/work_answer.lua

local slot, now_ms, settle_most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])

tells_timers = true
-- One by one, for each may be as much as a script may do.
local due = redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms, 'LIMIT', 0, 2)
local queue, name
if due[1] then
  queue, name = claim_names(due[1])
end
if not queue then
  return work_answer(0)
end
local subscription = claim_subscription(slot, queue, name)
claim_pass(subscription, now_ms, settle_most)
return work_answer((claim_is_closing(subscription) or #due == 2) and 1 or 0)
