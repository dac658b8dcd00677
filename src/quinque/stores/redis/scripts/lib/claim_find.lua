-- claim_find(slot, queue, name, now_ms, settle_most): the subscription as it is now; nothing if it
-- does not exist. claim_pass(subscription, now_ms, settle_most): carry out what is due in it: forfeit
-- claims that were not renewed, and remove claims that were kept long enough. If that is more than
-- a script may do, it is due again at once.
-- SAME AS engine/claims/due.py: lapsed_claims, stale_number
--
-- include lib/answer.lua
-- include lib/claim_close.lua
-- include lib/claim_keep_subscription.lua
-- include lib/claim_purge.lua
-- include lib/claim_subscription.lua

local function claim_pass(subscription, now_ms, settle_most)
  local lapses_ms = subscription.renewed_ms + subscription.release_ms
  local upto = 0
  if subscription.release_ms > 0 and lapses_ms <= now_ms
      and subscription.settled < subscription.last then
    if claim_is_stuck(subscription, now_ms, settle_most) then
      subscription.renewed_ms = now_ms  -- there is nowhere to put them; later there may be
    else
      upto = subscription.last
    end
  end
  claim_close(subscription, now_ms, settle_most, upto, CLAIM_IS_FORFEITED, CLAIM_FORFEITED)
  local last = subscription.first + CLAIM_PURGE_MOST
  while subscription.first < math.min(subscription.closing, last)
      and claim_stale_ms(subscription) <= now_ms do
    claim_purge(subscription, subscription.first)
  end
  claim_keep_subscription(subscription, now_ms)
  if claim_is_closing(subscription) then
    redis.call('ZADD', subscription.slot .. 'timers', now_ms, 'claim:' .. subscription.names)
  end
end

local function claim_find(slot, queue, name, now_ms, settle_most)
  local subscription = claim_subscription(slot, queue, name)
  tells_timers = true
  if subscription then
    local due_ms = redis.call('ZSCORE', slot .. 'timers', 'claim:' .. subscription.names)
    if tonumber(due_ms) <= now_ms then
      claim_pass(subscription, now_ms, settle_most)
    end
  end
  return subscription
end
