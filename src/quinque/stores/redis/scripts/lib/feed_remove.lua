-- feed_remove(feed, ids): the messages are gone for everyone. SAME AS engine/feed/feed.py:remove
--
-- include lib/feed_end.lua
-- include lib/many.lua

local function feed_remove(feed, ids)
  if #ids == 0 then
    return
  end
  local removed = many('ZREM', feed.order, ids)
  -- 0 - x, for Redis does not take the -0 that -x may be.
  redis.call('HINCRBY', feed.slot, 'events', 0 - removed)
  many('HDEL', feed.bodies, ids)
  many('ZREM', feed.expiries, ids)
  many('SREM', feed.singles, ids)
  for _, group in ipairs(redis.call('HKEYS', feed.groups)) do
    local keys = feed_group_keys(feed, group)
    many('ZREM', keys.held, ids)
    many('ZREM', keys.again, ids)
    many('ZREM', keys.deliveries, ids)
  end
  feed_end(feed)
end
