-- measure_groups.lua: how much the groups of a feed have before them, some of them at a time. Nothing
-- is settled first.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  queue            the feed
--          2  cursor           where to go on, 0 = at the beginning
--          3  count            about this many groups
-- RETURNS  the cursor to go on with, 0 at the end; and of each group a list: name, ready, leased;
--          since when the next one is in its place (ms), of those it has not had and of those it may
--          have again, each -1 = there is none
-- ERRORS   none
-- SAME AS  stores/embedded/measures.py: _of_feed

-- include lib/answer.lua
-- include lib/feed_cursor.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_keys.lua
-- include lib/first_place_ms.lua

local feed, cursor, count = feed_keys(slot_prefix(KEYS[1]), ARGV[1]), ARGV[2], ARGV[3]

local kept = redis.call('ZCARD', feed.order)
local scan = redis.call('HSCAN', feed.groups, cursor, 'COUNT', count)
local rows = {}
for at = 1, #scan[2], 2 do
  local name = scan[2][at]
  local place = string.format('%.0f', (feed_cursor(scan[2][at + 1])))
  local keys = feed_group_keys(feed, name)
  local passed = redis.call('ZCOUNT', feed.order, '-inf', place)
  local held = redis.call('ZCARD', keys.held)
  if passed > 0 or held > 0 then  -- or it is as if it never was
    rows[#rows + 1] = {name, kept - passed + redis.call('ZCARD', keys.again), held,
        first_place_ms('ZRANGEBYSCORE', feed.order, '(' .. place, '+inf', 'WITHSCORES', 'LIMIT', 0, 1),
        first_place_ms('ZRANGE', keys.again, 0, 0, 'WITHSCORES')}
  end
end
return answer({scan[1], rows})
