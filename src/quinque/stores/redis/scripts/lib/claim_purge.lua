-- claim_purge(subscription, upto): its claims up to that number of which nothing is left to be done
-- are not there any more; how many went.
--
-- include lib/claim_load.lua

local function claim_purge(subscription, upto)
  local first = subscription.first
  while subscription.first <= upto and subscription.first < subscription.closing do
    local claim = claim_begin(subscription, subscription.first, 0)
    redis.call('UNLINK', claim.about, claim.rows, claim.ids, claim.keys, claim.marks)
    subscription.first = subscription.first + 1
  end
  if first < subscription.first and subscription.first <= subscription.settled then
    subscription.ended_ms = claim_load(subscription, subscription.first).ended_ms
  end
  return subscription.first - first
end
