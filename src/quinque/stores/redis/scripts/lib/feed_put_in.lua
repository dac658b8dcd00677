-- feed_put_in(feed, bodies, from_us, step_us, expires_ms, options): new messages are at the back of the
-- feed; the stamp of the first, from_us if that is later than all others of the slot, or the next
-- one after a number of steps. Ids are one step apart. False if a message has the id that was
-- chosen. Of the options each may be left out:
--
--   id          chosen by the caller, for one message
--   to_front    the one message is before all others
--   is_single   one group works each, and its ack removes it
--   reason      why they came, for the record
--
-- feed_last_place(feed): the last place that was given out in the slot of the feed.
--
-- SAME AS engine/feed/decide.py:put
--
-- include lib/answer.lua
-- include lib/feed_cursor.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_record.lua
-- include lib/feed_remove.lua
-- include lib/keep_time.lua
-- include lib/many.lua
-- include lib/slot_begin.lua

-- Whether no living message has the id.
local function feed_is_free(feed, id)
  if redis.call('ZSCORE', feed.order, id) then
    local died_ms = tonumber(redis.call('ZSCORE', feed.expiries, id))
    if not died_ms or died_ms > feed.now_ms then
      return false
    end
    feed_remove(feed, {id}, EXPIRED, NONE)
  end
  return true
end

local function feed_made_ids(from_us, step_us, count)
  local ids = {}
  for at = 1, count do
    ids[at] = string.format('%d', from_us + (at - 1) * step_us)
  end
  return ids
end

-- Ids that no producer chose for another message, and the stamp of the first.
local function feed_new_ids(feed, stamp_us, step_us, count)
  local is_free = not redis.call('HGET', feed.about, 'has_chosen_ids')
  local ids = feed_made_ids(stamp_us, step_us, count)
  while not is_free do
    is_free = true
    for at, place in ipairs(many('ZMSCORE', feed.order, ids)) do
      if place then
        is_free, stamp_us = false, tonumber(ids[at]) + step_us
      end
    end
    ids = feed_made_ids(stamp_us, step_us, count)
  end
  return ids, stamp_us
end

-- The place before all others. Groups that are past it get the message as a redelivery.
local function feed_front(feed, place, id)
  local head = tonumber(redis.call('ZRANGE', feed.order, 0, 0, 'WITHSCORES')[2])
  place = head and head - 1 or place
  local groups = redis.call('HGETALL', feed.groups)
  for at = 1, #groups, 2 do
    if place <= feed_cursor(groups[at + 1]) then
      local keys = feed_group_keys(feed, groups[at])
      redis.call('ZADD', keys.again, place, id)
      redis.call('ZADD', keys.deliveries, 0, id)
    end
  end
  return place
end

local function feed_store(feed, ids, bodies, one_place, expires_ms, is_single)
  -- Redis gets text: it takes long to write numbers with many digits.
  local scored, kept, sizes = {}, {}, {}
  for at, id in ipairs(ids) do
    scored[2 * at - 1], scored[2 * at] = one_place or id, id
    kept[2 * at - 1], kept[2 * at], sizes[at] = id, bodies[at], #bodies[at]
  end
  many('ZADD', feed.order, scored)
  many('HSET', feed.bodies, kept)
  if expires_ms > 0 then
    local text = string.format('%d', expires_ms)
    for at = 1, #ids do
      scored[2 * at - 1] = text
    end
    many('ZADD', feed.expiries, scored)
    redis.call('ZADD', feed.alarms, 'LT', text, feed.queue)
  end
  if is_single then
    many('SADD', feed.singles, ids)
  end
  return sizes
end

local function feed_last_place(feed)
  return tonumber(redis.call('HGET', feed.slot, 'last_place') or 0)
end

local function feed_put_in(feed, bodies, from_us, step_us, expires_ms, options)
  local chosen_id, to_front = options.id, options.to_front
  if chosen_id and not feed_is_free(feed, chosen_id) then
    return false
  end
  -- Another broker's clock may be ahead, and a producer may have chosen the next id.
  local steps = math.max(0, math.ceil((feed_last_place(feed) + 1 - from_us) / step_us))
  local ids, stamp_us = {chosen_id}, from_us + steps * step_us
  if not chosen_id then
    ids, stamp_us = feed_new_ids(feed, stamp_us, step_us, #bodies)
  end
  local newest = string.format('%d', stamp_us + (#bodies - 1) * step_us)
  slot_begin(feed.prefix)
  keep_time(feed.prefix, feed.now_ms, 'last_place', newest)
  local place = to_front and feed_front(feed, stamp_us, ids[1]) or stamp_us
  if chosen_id or to_front then
    redis.call('HSET', feed.about, 'has_chosen_ids', 1)
  end
  -- A made id is its place; with a chosen one, or to the front, there is one message.
  local one_place = (chosen_id or to_front) and string.format('%d', place)
  local sizes = feed_store(feed, ids, bodies, one_place, expires_ms, options.is_single)
  redis.call('HINCRBY', feed.slot, 'events', #bodies)
  redis.call('HSET', feed.queues, feed.queue, feed.family)
  feed_record(feed, ADDED, options.reason or NONE, '', ids, sizes)
  ready_names[feed.queue] = true
  return stamp_us
end
