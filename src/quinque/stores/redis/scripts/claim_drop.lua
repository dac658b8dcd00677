-- claim_drop.lua: a subscription is gone, once its open claims are released; or a part of that is
-- done.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     its name
--          4  settle_most      first settle up to this many of each kind
-- RETURNS  how many messages went back by this call, 1 if there are more to be done; nothing if
--          there is no such subscription
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/claims/returning.py:close

-- include lib/claim_close.lua
-- include lib/claim_find.lua
-- include lib/claim_keep_subscription.lua
-- include lib/work_answer.lua

local slot, now_ms, settle_most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[4])

local subscription = claim_find(slot, ARGV[2], ARGV[3], now_ms, settle_most)
if not subscription then
  return work_answer(false)
elseif claim_is_stuck(subscription, now_ms, settle_most) then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local _, returned = claim_close(subscription, now_ms, settle_most, subscription.last,
    CLAIM_IS_FORFEITED, CLAIM_RELEASED)
if not claim_is_closing(subscription) then
  claim_purge(subscription, subscription.last)
end
if subscription.first <= subscription.last then
  claim_keep_subscription(subscription, now_ms)
  return work_answer({returned, 1})
end
tells_timers = true
redis.call('DEL', subscription.key)
redis.call('ZREM', slot .. 'timers', 'claim:' .. subscription.names)
keep_time(slot, now_ms)
return work_answer({returned, 0})
