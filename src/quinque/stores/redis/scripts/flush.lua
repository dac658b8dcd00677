-- flush.lua: forget every message of a feed. What groups hold stays held, detached from the feed.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      of what is due, so much is settled first
-- RETURNS  0
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/feed.py:clear

-- include lib/answer.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_record.lua
-- include lib/keep_time.lua

local FLUSH_MOST = 1000  -- in one entry of the record

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
if not feed.is_there then
  return answer(0)
end

-- A lease ends with its message's life, though the message is not there any more.
local function keep_expiries(keys)
  local held = redis.call('ZRANGE', keys.held, 0, -1)
  local dying = {}
  for at, expires_ms in ipairs(many('ZMSCORE', feed.expiries, held)) do
    if expires_ms then
      dying[#dying + 1] = expires_ms
      dying[#dying + 1] = held[at]
    end
  end
  many('ZADD', keys.detached_expiries, dying)
end

for _, group in ipairs(redis.call('HKEYS', feed.groups)) do
  local keys = feed_group_keys(feed, group)
  keep_expiries(keys)
  redis.call('ZUNIONSTORE', keys.detached, 2, keys.detached, keys.held)
  redis.call('UNLINK', keys.held, keys.again, keys.deliveries)
end
local last = is_recording and redis.call('ZCARD', feed.order) - 1 or -1
for from = 0, last, FLUSH_MOST do
  feed_record(feed, REMOVED, PURGED, '',
      redis.call('ZRANGE', feed.order, from, from + FLUSH_MOST - 1))
end
-- 0 - x, for Redis does not take the -0 that -x may be.
redis.call('HINCRBY', feed.slot, 'events', 0 - redis.call('ZCARD', feed.order))
redis.call('UNLINK', feed.order, feed.bodies, feed.expiries, feed.singles)
feed_end(feed)
keep_time(feed.prefix, now_ms)
return answer(0)
