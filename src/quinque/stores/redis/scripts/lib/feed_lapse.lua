-- feed_lapse(feed, group, now_ms, most): end up to `most` leases of the group that have run out;
-- returns how many. An expired message does not come back, and the lease of a flushed message just
-- ends. SAME AS engine/feed/due.py:settle
--
-- include lib/answer.lua
-- include lib/feed_give_back.lua
-- include lib/feed_part.lua
-- include lib/feed_record.lua
-- include lib/feed_remove.lua
-- include lib/feed_soonest.lua

local function feed_lapse(feed, group, now_ms, most)
  local keys = feed_group_keys(feed, group)
  local late = redis.call('ZRANGEBYSCORE', keys.held, '-inf', now_ms, 'LIMIT', 0, most)
  local back, expired = feed_part(feed, late, now_ms)
  feed_give_back(feed, keys, back)
  feed_record(feed, RETURNED, LAPSED, group, back)
  feed_remove(feed, expired, EXPIRED, NONE)
  local over = redis.call('ZRANGEBYSCORE', keys.detached, '-inf', now_ms, 'LIMIT', 0, most)
  feed_record(feed, RETURNED, LAPSED, group, over)
  many('ZREM', keys.detached, over)
  many('ZREM', keys.detached_expiries, over)
  local soonest_ms = feed_soonest(keys.held, keys.detached)
  if soonest_ms then
    redis.call('ZADD', feed.deadlines, soonest_ms, group)
  else
    redis.call('ZREM', feed.deadlines, group)
  end
  if #over > 0 then
    feed_end(feed, group)
  end
  if #back + #over > 0 then
    ready_names[feed.queue] = true
  end
  return #late + #over
end
