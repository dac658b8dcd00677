-- claim_release.lua: open claims are forfeited, and a part of their messages is where it was before.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     whose claims they are
--          4  settle_most      first settle up to this many of each kind
--          5  epoch            the caller's
--          6  number           of the last claim it is about
-- RETURNS  how many messages went back by this call, 1 if there are more to be done
-- ERRORS   NOSUB               the subscription does not exist
--          SUPERSEDED          another client opened it since
--          WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/claims/returning.py:close

-- include lib/claim_close.lua
-- include lib/claim_find.lua
-- include lib/claim_keep_subscription.lua
-- include lib/work_answer.lua

local slot, now_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local settle_most, epoch, number = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local subscription = claim_find(slot, queue, ARGV[3], now_ms, settle_most)
if not subscription then
  return work_answer(redis.error_reply('NOSUB ' .. ARGV[3]))
elseif subscription.epoch ~= epoch then
  return work_answer(redis.error_reply('SUPERSEDED ' .. subscription.epoch))
end
if claim_is_stuck(subscription, now_ms, settle_most) then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
subscription.renewed_ms = now_ms
local _, returned = claim_close(subscription, now_ms, settle_most, number, CLAIM_IS_FORFEITED,
    CLAIM_RELEASED)
claim_keep_subscription(subscription, now_ms)
return work_answer({returned, claim_is_closing(subscription) and 1 or 0})
