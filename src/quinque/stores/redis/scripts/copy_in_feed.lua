-- copy_in_feed.lua: messages of a feed are there as they were elsewhere.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  family           code of the family
--          2  at_ms            the latest time that is known elsewhere
--          3  queue            its name
--          4  stamp_us         the newest stamp that is known elsewhere
--          5.. id, place, expires_ms, is_single, body, holds  of each message; then, as often as
--              holds says, group, deadline_ms (0 = it may have it again), deliveries
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/feed/apply.py:apply_kept

-- include lib/answer.lua
-- include lib/copy_time.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_keys.lua
-- include lib/many.lua
-- include lib/slot_begin.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[3])
local family, at_ms, stamp_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])

local function hold(id, place, group, deadline_ms, deliveries)
  local keys = feed_group_keys(feed, group)
  if deadline_ms == '0' then
    redis.call('ZADD', keys.again, place, id)
  else
    redis.call('ZADD', keys.held, deadline_ms, id)
    redis.call('ZADD', feed.deadlines, 'LT', deadline_ms, group)
    redis.call('ZADD', feed.alarms, 'LT', deadline_ms, feed.queue)
  end
  if deliveries ~= '1' then
    redis.call('ZADD', keys.deliveries, deliveries, id)
  end
end

local placed, bodies, dying, singles = {}, {}, {}, {}
local at = 5
while at <= #ARGV do
  local id, place, expires_ms = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local is_single, body, holds = ARGV[at + 3], ARGV[at + 4], tonumber(ARGV[at + 5])
  placed[#placed + 1], placed[#placed + 2] = place, id
  bodies[#bodies + 1], bodies[#bodies + 2] = id, body
  if expires_ms ~= '0' then
    dying[#dying + 1], dying[#dying + 2] = expires_ms, id
    redis.call('ZADD', feed.alarms, 'LT', expires_ms, feed.queue)
  end
  if is_single == '1' then
    singles[#singles + 1] = id
  end
  if id ~= place then
    redis.call('HSET', feed.about, 'has_chosen_ids', 1)
  end
  at = at + 6
  for _ = 1, holds do
    hold(id, place, ARGV[at], ARGV[at + 1], ARGV[at + 2])
    at = at + 3
  end
end

local before = redis.call('ZCARD', feed.order)
many('ZADD', feed.order, placed)
many('HSET', feed.bodies, bodies)
many('ZADD', feed.expiries, dying)
many('SADD', feed.singles, singles)
-- Some may have come before: then they are counted.
redis.call('HINCRBY', feed.slot, 'events', redis.call('ZCARD', feed.order) - before)
slot_begin(feed.prefix)
redis.call('HSET', feed.queues, feed.queue, family)
copy_time(feed.prefix, at_ms, stamp_us)
ready_names[feed.queue] = true
return answer(false)
