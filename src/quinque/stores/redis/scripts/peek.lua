-- peek.lua: the message that a group would get next, or the one it would get last.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  group            who would get it
--          6  last             1 = the last one
-- RETURNS  id, body; empty if there is none; nothing = ask again, much had expired, or
--          an id had no message
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:peek

-- include lib/answer.lua
-- include lib/feed_ahead.lua
-- include lib/feed_first.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_share.lua
-- include rarely lib/feed_unfound.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local group, last = ARGV[5], ARGV[6] == '1'

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
settle_most = feed_share(feed, settle_most)
if not feed.is_there then
  return answer({})
end

local function next_ones(count)
  return (feed_ahead(feed, group, now_ms, settle_most, count))
end

local function last_of_all(count)
  return redis.call('ZREVRANGE', feed.order, 0, count - 1)
end

local function last_again(count)
  return redis.call('ZREVRANGE', feed_group_keys(feed, group).again, 0, count - 1)
end

local id = feed_first(feed, now_ms, settle_most, next_ones)
if id and last then
  -- There is one, so the last is either new to the group or comes again.
  local cursor = feed_cursor(redis.call('HGET', feed.groups, group))
  id = feed_first(feed, now_ms, settle_most, last_of_all)
  if id and cursor and tonumber(redis.call('ZSCORE', feed.order, id)) <= cursor then
    id = feed_first(feed, now_ms, settle_most, last_again)
  end
end
if id then
  local body = redis.call('HGET', feed.bodies, id)
  if not body then
    feed_unfound(feed, {id}, {body})
  end
  return answer(body and {id, body})
end
return answer(feed.rounds <= FEED_ROUNDS and {})
