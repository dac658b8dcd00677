-- feed_remove(feed, ids): the messages are gone for everyone. SAME AS engine/feed/feed.py:remove
--
-- include lib/feed_end.lua
-- include lib/feed_many.lua

local function feed_remove(feed, ids)
  if #ids == 0 then
    return
  end
  local removed = feed_many('ZREM', feed.order, ids)
  -- 0 - x, for Redis does not take the -0 that -x may be.
  redis.call('HINCRBY', feed.slot, 'events', 0 - removed)
  feed_many('HDEL', feed.bodies, ids)
  feed_many('ZREM', feed.expiries, ids)
  feed_many('SREM', feed.singles, ids)
  for _, group in ipairs(redis.call('HKEYS', feed.groups)) do
    local keys = feed_group_keys(feed, group)
    feed_many('ZREM', keys.held, ids)
    feed_many('ZREM', keys.again, ids)
    feed_many('ZREM', keys.deliveries, ids)
  end
  feed_end(feed)
end
