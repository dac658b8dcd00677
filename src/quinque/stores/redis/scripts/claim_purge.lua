-- claim_purge.lua: settled and forfeited claims are gone.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     whose claims they are
--          4  settle_most      first settle up to this many of each kind
--          5  number           of the last one
-- RETURNS  how many by this call, 1 if there may be more
-- ERRORS   none
-- SAME AS  engine/claims/decide.py:purge

-- include lib/claim_find.lua
-- include lib/claim_keep_subscription.lua
-- include lib/claim_purge.lua
-- include lib/work_answer.lua

local now_ms, settle_most, number = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])

local subscription = claim_find(slot_prefix(KEYS[1]), ARGV[2], ARGV[3], now_ms, settle_most)
if not subscription then
  return work_answer({0, 0})
end
local purged = claim_purge(subscription, number)
claim_keep_subscription(subscription, now_ms)
return work_answer({purged, purged == CLAIM_PURGE_MOST and 1 or 0})
