-- release.lua: give back messages that a group holds: it may have them again at once.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  group            who holds them
--          6  deadline_ms      only leases that end then; 0 = all
--          7  is_uncounted     1 = no consumer tried them: the delivery is not counted
--          8.. id              of each message
-- RETURNS  for each id, or the first ones if there are very many, 1 if it was given back, else 0
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:release

-- include lib/answer.lua
-- include lib/argv_rest.lua
-- include lib/feed_end_detached.lua
-- include lib/feed_held.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_pick.lua
-- include lib/feed_record.lua
-- include lib/feed_share.lua
-- include lib/feed_undeliver.lua
-- include lib/keep_time.lua

local IDS_MOST = 5000  -- messages, if there are few groups: some 10 ms
local NEVER_MS = 2 ^ 62  -- model/limits.py:NEVER_MS

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local group, deadline_ms, is_uncounted = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local ids = argv_rest(8)
local reason = is_uncounted and ASKED or NACKED

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

local most = feed_share(feed, IDS_MOST)
for at = #ids, most + 1, -1 do
  ids[at] = nil
end
local keys = feed_group_keys(feed, group)
local is_held, is_detached = feed_held(feed, keys, ids, now_ms)
-- A claim holds messages without a deadline: they are not leased.
local function is_meant(ends_ms)
  return ends_ms and ends_ms < NEVER_MS and (deadline_ms == 0 or ends_ms == deadline_ms)
end
local results, picked = feed_pick(ids, function(at)
  return is_meant(is_held[at]) and 'back' or is_meant(is_detached[at]) and 'flushed'
end)
if is_uncounted then
  feed_undeliver(keys, picked.back or {})
end
feed_give_back(feed, keys, picked.back or {})
feed_record(feed, RETURNED, reason, group, picked.back)
feed_record(feed, RETURNED, reason, group, picked.flushed)
feed_end_detached(feed, keys, group, picked.flushed or {})
if picked.back or picked.flushed then
  ready_names[feed.queue] = true
  keep_time(feed.prefix, now_ms)
end
return answer(results)
