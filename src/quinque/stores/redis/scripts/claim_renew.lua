-- claim_renew.lua: restart the lease of a subscription.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     its name
--          4  settle_most      first settle up to this many of each kind
--          5  epoch            the caller's
-- RETURNS  how many of its claims are open
-- ERRORS   NOSUB               the subscription does not exist
--          SUPERSEDED          another client opened it since
-- SAME AS  engine/claims/decide.py:check_epoch

-- include lib/claim_find.lua
-- include lib/claim_keep_subscription.lua
-- include lib/work_answer.lua

local now_ms, settle_most, epoch = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])

local subscription = claim_find(slot_prefix(KEYS[1]), ARGV[2], ARGV[3], now_ms, settle_most)
if not subscription then
  return work_answer(redis.error_reply('NOSUB ' .. ARGV[3]))
elseif subscription.epoch ~= epoch then
  return work_answer(redis.error_reply('SUPERSEDED ' .. subscription.epoch))
end
subscription.renewed_ms = now_ms
claim_keep_subscription(subscription, now_ms)
return work_answer(subscription.last - subscription.settled)
