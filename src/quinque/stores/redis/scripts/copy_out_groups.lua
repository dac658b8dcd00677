-- copy_out_groups.lua: the groups of a feed, for a copy, in the order in which they came.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
-- RETURNS  group, the place it has come to, of each
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:group_kept

-- include lib/answer.lua
-- include lib/feed_cursor.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_keys.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])

local groups = {}
local first_place = tonumber(redis.call('ZRANGE', feed.order, 0, 0, 'WITHSCORES')[2])
local kept = redis.call('HGETALL', feed.groups)
for at = 1, #kept, 2 do
  local cursor, number = feed_cursor(kept[at + 1])
  local keys = feed_group_keys(feed, kept[at])
  -- One that has passed no message and holds nothing is the same as one that never was.
  if (first_place and first_place <= cursor)
      or redis.call('EXISTS', keys.held, keys.detached) > 0 then
    groups[#groups + 1] = {kept[at], cursor, number}
  end
end
table.sort(groups, function(one, other) return one[3] < other[3] end)
return answer(groups)
