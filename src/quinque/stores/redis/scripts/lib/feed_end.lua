-- feed_end(feed, only): groups that have passed no message and hold nothing are forgotten, and so
-- is a feed without messages and groups. With `only`, no other group is looked at.
-- SAME AS engine/feed/groups.py:is_over, engine/feed/feed.py:is_empty
--
-- include lib/feed_cursor.lua
-- include lib/feed_group_keys.lua

local function feed_end(feed, only)
  local first_place = tonumber(redis.call('ZRANGE', feed.order, 0, 0, 'WITHSCORES')[2])
  local groups
  if only then
    groups = {only, redis.call('HGET', feed.groups, only)}
  else
    groups = redis.call('HGETALL', feed.groups)
  end
  for at = 1, #groups, 2 do
    local group, cursor = groups[at], feed_cursor(groups[at + 1])
    if cursor and (not first_place or cursor < first_place) then
      local keys = feed_group_keys(feed, group)
      if redis.call('EXISTS', keys.held, keys.detached) == 0 then
        redis.call('HDEL', feed.groups, group)
        redis.call('ZREM', feed.deadlines, group)
        redis.call('DEL', keys.again, keys.deliveries, keys.detached_expiries)
      end
    end
  end
  if not first_place and redis.call('EXISTS', feed.groups) == 0 then
    redis.call('HDEL', feed.queues, feed.queue)
    redis.call('ZREM', feed.alarms, feed.queue)
    redis.call('DEL', feed.about)
    feed.is_there = false
  end
end
