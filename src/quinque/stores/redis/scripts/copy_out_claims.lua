-- copy_out_claims.lua: the subscriptions on a queue, for a copy.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  queue            its name
-- RETURNS  of each: name, family, group, epoch, lease_ms, release_ms, settled, created_us, 1 if claims
--          are being closed, and a list of claims: number, state, plays, began_ms, ended_ms, chunks, and what
--          `claim_marks` has of it
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:subscription_kept

-- include lib/answer.lua
-- include lib/claim_load.lua
-- include lib/claim_names.lua
-- include lib/claim_subscription.lua

local slot, queue = slot_prefix(KEYS[1]), ARGV[1]

local function claims_of(subscription)
  local claims = {}
  for number = subscription.first, subscription.last do
    local claim = claim_load(subscription, number)
    claims[#claims + 1] = {number, claim.state, claim.plays, claim.began_ms, claim.ended_ms,
      claim.chunks, redis.call('HGETALL', claim.marks)}
  end
  return claims
end

local found = {}
for _, timer in ipairs(redis.call('ZRANGE', slot .. 'timers', 0, -1)) do
  local of, name = claim_names(timer)
  if of == queue then
    local it = claim_subscription(slot, queue, name)
    found[#found + 1] = {name, tonumber(it.family), it.group, it.epoch, it.lease_ms, it.release_ms,
      it.settled, it.created_us, it.closing <= it.settled and 1 or 0, claims_of(it)}
  end
end
return answer(found)
