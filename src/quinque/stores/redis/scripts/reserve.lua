-- reserve.lua: lease a group its next messages, what it may have again before what is new to it.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  group            who gets them
--          6  lease_ms         for how long; 0 = acknowledged at once
--          7  count            how many at most
--          8  room_bytes       when their bodies are larger than this, no more come
--          9  follows          1 = the broker's clock follows that of Redis
-- RETURNS  id, body, how often it was delivered, id, ..., and when their leases end, ms; nothing = ask
--          again, much had expired
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:reserve

-- include lib/answer.lua
-- include lib/feed_ahead.lua
-- include lib/feed_count_deliveries.lua
-- include lib/feed_keys.lua
-- include lib/feed_move_on.lua
-- include lib/feed_open.lua
-- include lib/feed_record.lua
-- include lib/feed_share.lua
-- include lib/is_there.lua
-- include lib/late_ms.lua
-- include lib/keep_time.lua
-- include lib/read_bodies.lua
-- include rarely lib/feed_unfound.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local group, lease_ms, count = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local room_bytes = tonumber(ARGV[8])
local deadline_ms = string.format('%d', now_ms + lease_ms + late_ms(now_ms, ARGV[9]))
local keys = feed_group_keys(feed, group)
local given = {}

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
settle_most = feed_share(feed, settle_most)

local function hold(ids)
  local held = {}
  for at, id in ipairs(ids) do
    held[2 * at - 1], held[2 * at] = deadline_ms, id
  end
  many('ZADD', keys.held, held)
  redis.call('ZADD', feed.deadlines, 'LT', deadline_ms, group)
  redis.call('ZADD', feed.alarms, 'LT', deadline_ms, feed.queue)
end

local function remove_singles(ids)
  local gone = {}
  for at, is_single in ipairs(many('SMISMEMBER', feed.singles, ids)) do
    if is_single == 1 then
      gone[#gone + 1] = ids[at]
    end
  end
  feed_remove(feed, gone, ACKED, NO_ACK)
end

-- Returns whether ids had no message.
local function hand_out(ids, comes_again)
  local bodies, is_unfound
  bodies, room_bytes, is_unfound = read_bodies(feed.bodies, ids, room_bytes)
  if is_unfound then
    ids, bodies = feed_unfound(feed, ids, bodies)
    if #ids == 0 then
      return true
    end
  end
  for at = #ids, #bodies + 1, -1 do
    ids[at] = nil
  end
  local deliveries = {}
  if comes_again then
    deliveries = feed_count_deliveries(keys, ids, lease_ms > 0)
  else
    feed_move_on(feed, group, ids[#ids])
  end
  -- A lease from before a flush was on another message with the same id.
  if is_there(keys.detached) and many('ZREM', keys.detached, ids) > 0 then
    many('ZREM', keys.detached_expiries, ids)
  end
  for at, id in ipairs(ids) do
    given[#given + 1] = id
    given[#given + 1] = bodies[at]
    given[#given + 1] = deliveries[at] or 1
  end
  feed_record(feed, DELIVERED, NONE, group, ids)
  if lease_ms > 0 then
    hold(ids)
  else
    feed_record(feed, ACKED, NO_ACK, group, ids)
    remove_singles(ids)
  end
  return is_unfound
end

local is_more = feed.is_there
while is_more and #given < 3 * count and room_bytes > 0 do
  local wanted = count - #given / 3
  local looked_at = feed.is_flooded and settle_most or wanted
  local ids, comes_again = feed_ahead(feed, group, now_ms, settle_most, looked_at)
  is_more = #ids > 0 and (comes_again or feed.is_flooded)
  if feed.is_flooded and #ids > 0 then
    local expired
    ids, expired = feed_part(feed, ids, now_ms)
    feed_remove(feed, expired, EXPIRED, NONE)
    for at = #ids, wanted + 1, -1 do
      ids[at] = nil
    end
    is_more = #expired == 0 and #ids > 0 or feed_round(feed)
  end
  if #ids > 0 and hand_out(ids, comes_again) then
    is_more = feed_round(feed)
  end
end

if #given > 0 then
  given[#given + 1] = tonumber(deadline_ms)
  keep_time(feed.prefix, now_ms)
elseif feed.rounds > FEED_ROUNDS then
  return answer(false)
end
return answer(given)
