-- feed_remove(feed, ids, kind, reason): remove the messages for all groups, and record why if `kind`
-- is given. SAME AS engine/feed/feed.py:remove
--
-- include lib/feed_end.lua
-- include lib/feed_record.lua
-- include lib/many.lua

local function feed_remove(feed, ids, kind, reason)
  if #ids == 0 then
    return
  end
  if kind then
    feed_record(feed, kind, reason, '', ids)
  end
  local removed = many('ZREM', feed.order, ids)
  -- 0 - x, for Redis does not take the -0 that -x may be.
  redis.call('HINCRBY', feed.slot, 'events', 0 - removed)
  many('HDEL', feed.bodies, ids)
  many('ZREM', feed.expiries, ids)
  many('SREM', feed.singles, ids)
  for _, group in ipairs(redis.call('HKEYS', feed.groups)) do
    local keys = feed_group_keys(feed, group)
    if redis.call('EXISTS', keys.held, keys.again, keys.deliveries) > 0 then
      many('ZREM', keys.held, ids)
      many('ZREM', keys.again, ids)
      many('ZREM', keys.deliveries, ids)
    end
  end
  feed_end(feed)
end
