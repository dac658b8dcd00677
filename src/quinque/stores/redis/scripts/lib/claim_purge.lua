-- claim_purge(subscription, upto): its claims up to that number of which nothing is left to be done
-- are not there any more, or the first of them, if there are very many; how many went.
--
-- include lib/claim_load.lua

local CLAIM_PURGE_MOST = 1000  -- claims: some 3 ms

local function claim_purge(subscription, upto)
  local first = subscription.first
  upto = math.min(upto, first + CLAIM_PURGE_MOST - 1)
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
