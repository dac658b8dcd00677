-- claim_holds(slot, ids): which of these ids are those of messages of worklists in open claims of the
-- slot, by id. Looks through every open claim, so use it for the few ids that clients wait for.
-- SAME AS engine/claims/views.py:claimed_among
--
-- include lib/claim_load.lua
-- include lib/claim_names.lua
-- include lib/claim_subscription.lua

local function claim_look_through(claim, ids, held)
  for chunk = 0, claim.chunks - 1 do
    local packed_ids = redis.call('LINDEX', claim.ids, chunk)
    for _, id in ipairs(ids) do
      -- These ids have one length, so none is a part of another.
      held[id] = held[id] or string.find(packed_ids, id, 1, true) ~= nil
    end
  end
end

local function claim_holds(slot, ids)
  local held = {}
  for _, timer in ipairs(#ids > 0 and redis.call('ZRANGE', slot .. 'timers', 0, -1) or {}) do
    local queue, name = claim_names(timer)
    local subscription = queue and claim_subscription(slot, queue, name)
    if subscription and subscription.is_worklist then
      for number = subscription.settled + 1, subscription.last do
        claim_look_through(claim_load(subscription, number), ids, held)
      end
    end
  end
  return held
end
