-- feed_ahead(feed, group, now_ms, most, count): the next messages for the group, `count` of them,
-- and whether it had them before; in a flooded feed some may have expired. Redeliveries come before
-- new messages. SAME AS engine/feed/decide.py:reserve
--
-- include lib/feed_lapse.lua
-- include lib/feed_round.lua

local function feed_ahead(feed, group, now_ms, most, count)
  local keys = feed_group_keys(feed, group)
  local back = redis.call('ZRANGE', keys.again, 0, count - 1)
  -- More may have lapsed than was settled at once.
  while feed.is_flooded and #back == 0
      and redis.call('ZCOUNT', keys.held, '-inf', now_ms) > 0 do
    if not feed_round(feed) then
      return {}, false
    end
    feed_lapse(feed, group, now_ms, most)
    back = redis.call('ZRANGE', keys.again, 0, count - 1)
  end
  if #back > 0 then
    return back, true
  end
  local cursor = feed_cursor(redis.call('HGET', feed.groups, group))
  local from = cursor and string.format('(%.0f', cursor) or '-inf'
  return redis.call('ZRANGEBYSCORE', feed.order, from, '+inf', 'LIMIT', 0, count), false
end
