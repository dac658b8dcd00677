-- copy_in_subscription.lua: a subscription is there as it was elsewhere, but for the chunks of its
-- claims.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  at_ms            the latest time that is known elsewhere
--          3  queue            its name
--          4  stamp_us         the newest stamp that is known elsewhere
--          5  is_worklist      1 = it is one
--          6  subscription     its name
--          7  group            for which it reads a feed
--          8  epoch            its newest
--          9  lease_ms         stalled if not renewed for this time
--         10  release_ms       open claims are forfeited then; 0 = never
--         11  settled          the last claim that is settled or forfeited
--         12  renewed_ms       its lease begins then
--         13  created_us       when it was first opened; 0 = unknown
--         14.. number, state, plays, began_ms, ended_ms  of each claim
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/claims/apply.py:apply_subscription_kept

-- include lib/answer.lua
-- include lib/claim_keep_subscription.lua
-- include lib/claim_load.lua
-- include lib/copy_time.lua
-- include lib/slot_begin.lua

local slot, at_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[2]), ARGV[3]
local settled = tonumber(ARGV[11])
local names = #queue .. ':' .. queue .. ':' .. ARGV[6]
local subscription = {
  slot = slot,
  names = names,
  key = slot .. 'subscription:' .. names,
  family = ARGV[1],
  is_worklist = ARGV[5] == '1',
  group = ARGV[7],
  epoch = tonumber(ARGV[8]),
  lease_ms = tonumber(ARGV[9]),
  release_ms = tonumber(ARGV[10]),
  renewed_ms = tonumber(ARGV[12]),
  ended_ms = 0,
  created_us = tonumber(ARGV[13]),
  first = #ARGV > 13 and tonumber(ARGV[14]) or settled + 1,
  closing = settled + 1,
  settled = settled,
  last = settled,
  ends = {},
}

for at = 14, #ARGV, 5 do
  local claim = claim_begin(subscription, tonumber(ARGV[at]), 0)
  redis.call('HSET', claim.about, 'state', ARGV[at + 1], 'plays', ARGV[at + 2],
      'began_ms', ARGV[at + 3], 'ended_ms', ARGV[at + 4])
  subscription.last = math.max(settled, claim.number)
  if claim.number == subscription.first then
    subscription.ended_ms = tonumber(ARGV[at + 4])
  end
end
slot_begin(slot)
claim_keep_subscription(subscription, at_ms)
local last_epoch = tonumber(redis.call('HGET', KEYS[1], 'last_epoch') or 0)
redis.call('HSET', KEYS[1], 'last_epoch', math.max(last_epoch, subscription.epoch))
copy_time(slot, at_ms, tonumber(ARGV[4]))
return answer(false)
