-- claim_play.lua: one more play of a claim is counted, and only its first messages stay in it; of one
-- chunk of the others that is true by this call.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     whose claim it is
--          4  settle_most      first settle up to this many of each kind
--          5  epoch            the caller's
--          6  number           of the claim
--          7  keep             this many messages stay; 0 = all
--          8  plays            1 = it is counted, 0 = it was by an earlier call
-- RETURNS  the claim, as lib/claim_view.lua has it; 1 if there are more messages to be put back
-- ERRORS   NOSUB               the subscription does not exist
--          SUPERSEDED          another client opened it since
--          NOCLAIM             it is not there, or cannot be read
--          WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/claims/returning.py:shrink

-- include lib/claim_find.lua
-- include lib/claim_keep_subscription.lua
-- include lib/claim_load.lua
-- include lib/claim_shrink.lua
-- include lib/claim_view.lua
-- include lib/work_answer.lua

local slot, now_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local settle_most, epoch, number = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local keep, plays = tonumber(ARGV[7]), tonumber(ARGV[8])

local subscription = claim_find(slot, queue, ARGV[3], now_ms, settle_most)
if not subscription then
  return work_answer(redis.error_reply('NOSUB ' .. ARGV[3]))
elseif subscription.epoch ~= epoch then
  return work_answer(redis.error_reply('SUPERSEDED ' .. subscription.epoch))
end
local claim = claim_load(subscription, number)
if not claim then
  return work_answer(redis.error_reply('NOCLAIM does not exist'))
elseif claim.state == CLAIM_FILLING then
  return work_answer(redis.error_reply('NOCLAIM is not sealed'))
elseif claim.state == CLAIM_IS_FORFEITED then
  return work_answer(redis.error_reply('NOCLAIM was released: its messages returned to the queue'))
end

local shrinks = 0 < keep and claim.state == CLAIM_SEALED
if shrinks and keep < claim.messages then
  if not claim_shrink(claim, keep, now_ms, settle_most) then
    return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  end
end
if plays == 1 and claim.state == CLAIM_SEALED then
  redis.call('UNLINK', claim.marks)  -- of an attempt that did not finish
end
claim.plays = claim.plays + plays
claim_keep(claim)
subscription.renewed_ms = now_ms
claim_keep_subscription(subscription, now_ms)
return work_answer({claim_view(claim, now_ms), shrinks and keep < claim.messages and 1 or 0})
