-- put.lua: store messages at the back of a feed, or one at its front.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      of what is due, so much is settled first
--          5  stamp_us         the first place, at least, and the first id if none is chosen
--          6  expires_ms       0 = never
--          7  is_single        1 = one group works each, and its ack removes it
--          8  to_front         1 = before all others
--          9  has_id           1 = the caller chose the id
--         10  id               that id
--         11.. body            of each message; with a chosen id, or to the front, of one
-- RETURNS  the stamp of the first message; nothing if a message has the id
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:put

-- include lib/answer.lua
-- include lib/feed_keys.lua
-- include lib/many.lua
-- include lib/feed_open.lua
-- include lib/feed_remove.lua
-- include lib/keep_time.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local stamp_us, expires_ms = tonumber(ARGV[5]), tonumber(ARGV[6])
local is_single, to_front, has_id = ARGV[7] == '1', ARGV[8] == '1', ARGV[9] == '1'
local chosen_id = ARGV[10]
local first_body = 11
local count = #ARGV - first_body + 1

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

if has_id and redis.call('ZSCORE', feed.order, chosen_id) then
  local died_ms = tonumber(redis.call('ZSCORE', feed.expiries, chosen_id))
  if not died_ms or died_ms > now_ms then
    return answer(false)
  end
  feed_remove(feed, {chosen_id})
end

local function made_ids(from_us)
  local ids = {}
  for at = 1, count do
    ids[at] = string.format('%d', from_us + at - 1)
  end
  return ids
end

-- Another broker's clock may be ahead, and somebody may have chosen what would be the next id.
stamp_us = math.max(stamp_us, tonumber(redis.call('HGET', feed.slot, 'last_place') or 0) + 1)
local ids = {chosen_id}
if not has_id then
  local is_free = not redis.call('HGET', feed.about, 'has_chosen_ids')
  ids = made_ids(stamp_us)
  while not is_free do
    is_free = true
    for at, place in ipairs(many('ZMSCORE', feed.order, ids)) do
      if place then
        is_free, stamp_us = false, tonumber(ids[at]) + 1
      end
    end
    ids = made_ids(stamp_us)
  end
end
keep_time(feed.prefix, now_ms, 'last_place', string.format('%d', stamp_us + count - 1))

local place = stamp_us
if to_front then
  local head = tonumber(redis.call('ZRANGE', feed.order, 0, 0, 'WITHSCORES')[2])
  place = head and head - 1 or place
  local groups = redis.call('HGETALL', feed.groups)
  for at = 1, #groups, 2 do
    if place <= feed_cursor(groups[at + 1]) then
      -- The group is past the front: it gets the message as one to be had again.
      local keys = feed_group_keys(feed, groups[at])
      redis.call('ZADD', keys.again, place, ids[1])
      redis.call('ZADD', keys.deliveries, 0, ids[1])
    end
  end
end
if has_id or to_front then
  redis.call('HSET', feed.about, 'has_chosen_ids', 1)
end

-- All that is said to Redis is text: it takes long to write numbers of so many digits.
-- A made id is its place; with a chosen one, or to the front, there is one message.
local one_place = (has_id or to_front) and string.format('%d', place)
local scored, bodies = {}, {}
for at, id in ipairs(ids) do
  scored[2 * at - 1], scored[2 * at] = one_place or id, id
  bodies[2 * at - 1], bodies[2 * at] = id, ARGV[first_body + at - 1]
end
many('ZADD', feed.order, scored)
many('HSET', feed.bodies, bodies)
if expires_ms > 0 then
  local text = string.format('%d', expires_ms)
  for at = 1, count do
    scored[2 * at - 1] = text
  end
  many('ZADD', feed.expiries, scored)
  redis.call('ZADD', feed.alarms, 'LT', text, feed.queue)
end
if is_single then
  many('SADD', feed.singles, ids)
end
redis.call('HINCRBY', feed.slot, 'events', count)
redis.call('HSET', feed.queues, feed.queue, family)
ready_names[feed.queue] = true
return answer(stamp_us)
