-- feed_end_detached(feed, keys, group, ids): the group's leases of messages that were flushed are
-- over.
--
-- include lib/feed_end.lua
-- include lib/many.lua

local function feed_end_detached(feed, keys, group, ids)
  if #ids > 0 then
    many('ZREM', keys.detached, ids)
    many('ZREM', keys.detached_expiries, ids)
    feed_end(feed, group)
  end
end
