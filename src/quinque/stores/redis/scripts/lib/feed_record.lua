-- feed_record(feed, kind, reason, group, ids, sizes): that this became of messages of the feed, if
-- there are any, goes on record.
--
-- include lib/record.lua
local function feed_record(feed, kind, reason, group, ids, sizes)
  if not ids or #ids == 0 or not is_recording then
    return
  end
  feed.family = feed.family or redis.call('HGET', feed.queues, feed.queue)
  record(feed.prefix, feed.now_ms, kind, reason, feed.family, feed.queue, group, 0, ids, nil, sizes)
end
