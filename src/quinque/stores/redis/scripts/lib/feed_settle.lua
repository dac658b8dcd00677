-- feed_settle(feed, now_ms, most): what time made due is carried out, `most` of each kind, if the
-- script may settle as many. Each group costs as much again, so of many groups fewer are settled.
-- SAME AS engine/feed/due.py:settle
--
-- include lib/feed_lapse.lua
-- include lib/feed_remove.lua
-- include lib/feed_share.lua
-- include lib/feed_soonest.lua
-- include lib/settle_room.lua

local function feed_settle(feed, now_ms, most)
  local due_ms = tonumber(redis.call('ZSCORE', feed.alarms, feed.queue))
  if not due_ms or due_ms > now_ms then
    return
  end
  feed.now_ms = now_ms
  most = feed_share(feed, settle_room(most))
  local expired = redis.call('ZRANGEBYSCORE', feed.expiries, '-inf', now_ms, 'LIMIT', 0, most)
  feed_remove(feed, expired, EXPIRED, NONE)
  settle_note(#expired)
  local left = settle_room(most)
  local late = redis.call('ZRANGEBYSCORE', feed.deadlines, '-inf', now_ms, 'LIMIT', 0, left)
  for _, group in ipairs(late) do
    if left > 0 then
      local count = math.max(1, feed_lapse(feed, group, now_ms, left))
      settle_note(count)
      left = left - count
    end
  end
  local soonest_ms = feed_soonest(feed.expiries, feed.deadlines)
  if soonest_ms then
    redis.call('ZADD', feed.alarms, soonest_ms, feed.queue)
    feed.is_flooded = soonest_ms <= now_ms
  else
    redis.call('ZREM', feed.alarms, feed.queue)
  end
end
