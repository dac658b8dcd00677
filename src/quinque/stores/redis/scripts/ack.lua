-- ack.lua: finish messages that a group holds; a single one is then gone for everyone.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  group            who holds them
--          6  held_only        0 = single messages that no group holds are finished as well
--          7.. id              of each message
-- RETURNS  for each id, or the first ones if there are very many, 1 if it was finished, else 0
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:ack

-- include lib/answer.lua
-- include lib/argv_rest.lua
-- include lib/feed_end_detached.lua
-- include lib/feed_held.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_pick.lua
-- include lib/feed_record.lua
-- include lib/feed_share.lua
-- include lib/is_there.lua
-- include lib/keep_time.lua

local IDS_MOST = 5000  -- messages, if there are few groups: some 10 ms

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local group, held_only = ARGV[5], ARGV[6] == '1'
local ids = argv_rest(7)

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

local most = feed_share(feed, IDS_MOST)
for at = #ids, most + 1, -1 do
  ids[at] = nil
end
local keys = feed_group_keys(feed, group)
local is_held, is_detached = feed_held(feed, keys, ids, now_ms)
local is_single = is_there(feed.singles) and many('SMISMEMBER', feed.singles, ids) or {}
local expiries = feed.is_flooded and many('ZMSCORE', feed.expiries, ids) or {}
local results, picked = feed_pick(ids, function(at)
  if is_held[at] then
    return is_single[at] == 1 and 'gone' or 'done'
  elseif is_detached[at] then
    return 'flushed'
  end
  local has_expired = expiries[at] and tonumber(expiries[at]) <= now_ms
  return not held_only and is_single[at] == 1 and not has_expired and 'gone'
end)
if picked.done then
  feed_record(feed, ACKED, NONE, group, picked.done)
  many('ZREM', keys.held, picked.done)
  if is_there(keys.deliveries) then
    many('ZREM', keys.deliveries, picked.done)
  end
end
if picked.flushed then
  feed_record(feed, ACKED, NONE, group, picked.flushed)
  feed_end_detached(feed, keys, group, picked.flushed)
end
if picked.gone then
  feed_record(feed, ACKED, NONE, group, picked.gone)
  feed_remove(feed, picked.gone, ACKED, NONE)
end
keep_time(feed.prefix, now_ms)
return answer(results)
