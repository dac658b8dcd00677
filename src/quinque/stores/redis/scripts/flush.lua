-- flush.lua: forget the messages that a feed had when its flush began, the last ones first; a part of
-- them, if there are very many. Leases of groups stay, detached from the feed.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  first            place of the first message when it began; '' = it begins
--          6  last             place of the last message when it began
-- RETURNS  first, last, to call it with again; nothing if all is done
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/feed.py:clear

-- include lib/answer.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_share.lua
-- include lib/is_there.lua
-- include lib/keep_time.lua
-- include lib/many.lua

local FLUSH_MOST = 1500  -- messages, if there are few groups: some 5 ms

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local first, last = ARGV[5], ARGV[6]

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
if not feed.is_there then
  return answer(false)
end
if first == '' then
  first = redis.call('ZRANGE', feed.order, 0, 0, 'WITHSCORES')[2]
  last = redis.call('ZREVRANGE', feed.order, 0, 0, 'WITHSCORES')[2]
end

-- A lease stays. It ends with its message's life, though the message is not there any more.
local function detach(keys, ids)
  local held, dying = {}, {}
  local expiries = many('ZMSCORE', feed.expiries, ids)
  for at, deadline_ms in ipairs(many('ZMSCORE', keys.held, ids)) do
    if deadline_ms then
      held[#held + 1], held[#held + 2] = deadline_ms, ids[at]
      if expiries[at] then
        dying[#dying + 1], dying[#dying + 2] = expiries[at], ids[at]
      end
    end
  end
  many('ZADD', keys.detached, held)
  many('ZADD', keys.detached_expiries, dying)
end

-- From the end: what is put to the front meanwhile comes before the first message, which goes last.
local most = feed_share(feed, FLUSH_MOST)
local ids = first and redis.call('ZREVRANGEBYSCORE', feed.order, last, first, 'LIMIT', 0, most) or {}
for _, group in ipairs(#ids > 0 and redis.call('HKEYS', feed.groups) or {}) do
  local keys = feed_group_keys(feed, group)
  if is_there(keys.held) then
    detach(keys, ids)
  end
end
feed_remove(feed, ids, REMOVED, PURGED)
feed_end(feed)
keep_time(feed.prefix, now_ms)
return answer(#ids == most and {first, last})
