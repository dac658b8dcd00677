-- claim_keep_subscription(subscription, now_ms): what the script changed in it is kept, and so is when
-- time next does something to its claims.
--
-- claim_stale_ms(subscription): when its first claim, which is finished, was kept for long enough. A
-- forfeited one stays until the next claim is begun.
-- SAME AS engine/claims/subscription.py: kept_until_ms
--
-- include lib/answer.lua
-- include lib/claim_load.lua
-- include lib/keep_time.lua

local CLAIM_KEPT_MS = 3600000  -- model/limits.py:CLAIM_KEPT_MS
local CLAIM_NEVER_MS = 2 ^ 62  -- model/limits.py:NEVER_MS
-- The broker that closes claims goes on at once. If it is gone, another goes on after this time.
local CLAIM_GOES_ON_MS = 1000

local function claim_stale_ms(subscription)
  local first = subscription.first
  if first == subscription.last then
    -- A script that has closed the claim does not read after it has written.
    local state = subscription.ends[first] or claim_load(subscription, first).state
    if state == CLAIM_IS_FORFEITED then
      return CLAIM_NEVER_MS
    end
  end
  return subscription.ended_ms + CLAIM_KEPT_MS
end

local function claim_soonest(subscription, now_ms)
  local soonest_ms = CLAIM_NEVER_MS
  if subscription.closing <= subscription.settled then
    soonest_ms = now_ms + CLAIM_GOES_ON_MS
  end
  if subscription.release_ms > 0 and subscription.settled < subscription.last then
    soonest_ms = math.min(soonest_ms, subscription.renewed_ms + subscription.release_ms)
  end
  if subscription.first <= subscription.settled then
    soonest_ms = math.min(soonest_ms, claim_stale_ms(subscription))
  end
  return soonest_ms
end

local function claim_keep_subscription(subscription, now_ms)
  local slot = subscription.slot
  local fields = {}
  for _, name in ipairs({'epoch', 'first', 'closing', 'settled', 'last', 'lease_ms', 'release_ms',
      'renewed_ms', 'ended_ms', 'created_us'}) do
    fields[#fields + 1] = name
    fields[#fields + 1] = string.format('%d', subscription[name])
  end
  redis.call('HSET', subscription.key, 'family', subscription.family, 'is_worklist',
      subscription.is_worklist and 1 or 0, 'group', subscription.group, unpack(fields))
  redis.call('ZADD', slot .. 'timers', string.format('%d', claim_soonest(subscription, now_ms)),
      'claim:' .. subscription.names)
  tells_timers = true
  keep_time(slot, now_ms)
end
