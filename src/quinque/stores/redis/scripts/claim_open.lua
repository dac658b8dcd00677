-- claim_open.lua: make the caller the only reader of a subscription.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     its name
--          4  settle_most      first settle up to this many of each kind
--          5  family           code of the queue's family
--          6  is_worklist      1 = it is one
--          7  group            for which it reads a feed
--          8  lease_ms         stalled if not renewed for this time
--          9  release_ms       open claims are forfeited then; 0 = never
-- RETURNS  the subscription, as lib/claim_subscription_view.lua has it; nothing if it reads for
--          another group and has open claims
-- ERRORS   WRONGTYPE           the queue, or an open claim, belongs to another family
-- SAME AS  engine/claims/decide.py:open_

-- include lib/claim_keep_subscription.lua
-- include lib/claim_find.lua
-- include lib/claim_subscription_view.lua
-- include lib/find_queue.lua
-- include lib/slot_begin.lua
-- include lib/work_answer.lua

local slot, now_ms, queue, settle_most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2],
    tonumber(ARGV[4])
local family, is_worklist, group = ARGV[5], ARGV[6] == '1', ARGV[7]

local subscription = claim_find(slot, queue, ARGV[3], now_ms, settle_most)
-- Messages that have not gone back yet are as good as claimed.
local has_open = subscription and subscription.closing <= subscription.last
local is_free = find_queue(slot, queue, family, now_ms) ~= nil
if not is_free or (has_open and subscription.family ~= family) then
  if is_free then
    wrong_type('subscription', subscription.family, ARGV[3])
  end
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
if not subscription then
  local names = #queue .. ':' .. queue .. ':' .. ARGV[3]
  subscription = {
    slot = slot,
    queue = queue,
    name = ARGV[3],
    names = names,
    key = slot .. 'subscription:' .. names,
    first = 1,
    closing = 1,
    settled = 0,
    last = 0,
    ended_ms = 0,
    created_us = 0,
    ends = {},
  }
elseif has_open and subscription.group ~= group then
  return work_answer(false)
end
subscription.family, subscription.is_worklist, subscription.group = family, is_worklist, group
slot_begin(slot)
-- Counted in the slot: a subscription that is dropped and opened again must not start at 1.
subscription.epoch = redis.call('HINCRBY', KEYS[1], 'last_epoch', 1)
if subscription.created_us == 0 then
  -- Two that are created in one millisecond differ by their epochs.
  subscription.created_us = now_ms * 1000 + subscription.epoch % 1000
end
subscription.lease_ms, subscription.release_ms = tonumber(ARGV[8]), tonumber(ARGV[9])
subscription.renewed_ms = now_ms
claim_keep_subscription(subscription, now_ms)
return work_answer(claim_subscription_view(subscription, now_ms, settle_most))
