-- feed_open(feed, family, now_ms, most): what time made due in the feed is settled, and whether it
-- is there is known. False if the name belongs to another family: then the script answers
-- WRONGTYPE. SAME AS stores/embedded/feed_operations.py:find
--
-- include lib/feed_settle.lua
-- include lib/find_queue.lua

local function feed_open(feed, family, now_ms, most)
  local is_ours = find_queue(feed.prefix, feed.queue, family, now_ms)
  feed.family, feed.now_ms = is_ours ~= nil and family or nil, now_ms
  if is_ours == false then
    return true
  end
  feed.is_there = true
  if is_ours or redis.call('EXISTS', feed.order, feed.groups) > 0 then
    feed_settle(feed, now_ms, most)
  end
  return is_ours or not feed.is_there
end
