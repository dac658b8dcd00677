-- copy_in_detached.lua: groups of a feed, which are there, hold messages that were flushed elsewhere.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2.. group, id, deadline_ms, expires_ms  of each lease
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  stores/portable.py:Detached

-- include lib/answer.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_keys.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])

for at = 2, #ARGV, 4 do
  local group, id, deadline_ms, expires_ms = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local keys = feed_group_keys(feed, group)
  redis.call('ZADD', keys.detached, deadline_ms, id)
  if expires_ms ~= '0' then
    redis.call('ZADD', keys.detached_expiries, expires_ms, id)
  end
  redis.call('ZADD', feed.deadlines, 'LT', deadline_ms, group)
  redis.call('ZADD', feed.alarms, 'LT', deadline_ms, feed.queue)
end
return answer(false)
