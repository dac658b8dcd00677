-- claim_subscription_view(subscription, now_ms, settle_most): what is shown of it: family, queue,
-- name, group, epoch, settled, lease_ms, release_ms, unrenewed_ms, is_stalled, backlog, oldest_ms,
-- stamp_us, created_us, and a list of its claims. SAME AS engine/claims/views.py:subscription_view
--
-- include lib/claim_load.lua
-- include lib/claim_view.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/work_find.lua

local function claim_first_place(index, from)
  return tonumber(redis.call('ZRANGEBYSCORE', index, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- How many messages could be claimed, and the place of the first.
local function claim_backlog(subscription, now_ms, settle_most)
  local slot, queue = subscription.slot, subscription.queue
  -- Nothing is to make way for a look.
  if redis.call('HGET', slot .. 'queues', queue) ~= subscription.family then
    return 0, nil
  elseif subscription.is_worklist then
    local list = work_find(slot, queue, subscription.family, now_ms, settle_most)
    local ready = slot .. 'ready:' .. queue
    return list and redis.call('ZCARD', ready) or 0, list and claim_first_place(ready, '-inf')
  end
  local feed = feed_keys(slot, queue)
  feed_open(feed, subscription.family, now_ms, settle_most)
  local again = feed_group_keys(feed, subscription.group).again
  local cursor = feed_cursor(redis.call('HGET', feed.groups, subscription.group))
  local from = cursor and string.format('(%.0f', cursor) or '-inf'
  local count = redis.call('ZCARD', again) + redis.call('ZCOUNT', feed.order, from, '+inf')
  return count, claim_first_place(again, '-inf') or claim_first_place(feed.order, from)
end

local function claim_subscription_view(subscription, now_ms, settle_most)
  local backlog, first_place = claim_backlog(subscription, now_ms, settle_most)
  local unrenewed_ms = math.max(0, now_ms - subscription.renewed_ms)
  local is_open = subscription.settled < subscription.last
  local claims = {}
  for number = subscription.first, subscription.last do
    claims[#claims + 1] = claim_view(claim_load(subscription, number), now_ms)
  end
  return {
    subscription.family,
    subscription.queue,
    subscription.name,
    subscription.group,
    subscription.epoch,
    subscription.settled,
    subscription.lease_ms,
    subscription.release_ms,
    unrenewed_ms,
    is_open and unrenewed_ms >= subscription.lease_ms and 1 or 0,
    backlog,
    first_place and math.max(0, now_ms - math.floor(first_place / 1000)) or 0,
    tonumber(redis.call('HGET', subscription.slot .. 'slot', 'last_place') or 0),
    subscription.created_us,
    claims,
  }
end
