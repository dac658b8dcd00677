-- copy_in_groups.lua: groups of a feed are there, and have come as far as they had elsewhere.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  family           code of the family
--          2  at_ms            the latest time that is known elsewhere
--          3  queue            its name
--          4  stamp_us         the newest stamp that is known elsewhere
--          5.. group, place    of each
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/feed/apply.py:apply_group_kept

-- include lib/answer.lua
-- include lib/copy_time.lua
-- include lib/feed_keys.lua
-- include lib/slot_begin.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[3])
local family, at_ms, stamp_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])

slot_begin(feed.prefix)
redis.call('HSET', feed.queues, feed.queue, family)
for at = 5, #ARGV, 2 do
  if redis.call('HEXISTS', feed.groups, ARGV[at]) == 0 then
    local number = redis.call('HINCRBY', feed.about, 'groups_ever', 1)
    redis.call('HSET', feed.groups, ARGV[at], string.format('%.0f %s', number, ARGV[at + 1]))
  end
end
copy_time(feed.prefix, at_ms, stamp_us)
return answer(false)
