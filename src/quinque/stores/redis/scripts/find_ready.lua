-- find_ready.lua: whether a feed has something for a group.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  group            who would get it
-- RETURNS  1 or 0; nothing = ask again, much had expired
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:has_work

-- include lib/answer.lua
-- include lib/feed_ahead.lua
-- include lib/feed_first.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_share.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local group = ARGV[5]

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
settle_most = feed_share(feed, settle_most)
if not feed.is_there then
  return answer(0)
end

local id = feed_first(feed, now_ms, settle_most, function(count)
  return (feed_ahead(feed, group, now_ms, settle_most, count))
end)
if id then
  return answer(1)
end
return answer(feed.rounds <= FEED_ROUNDS and 0)
