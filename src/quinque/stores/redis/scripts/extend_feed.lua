-- extend_feed.lua: let leases of a group that still run end lease_ms from now.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  group            whose leases
--          6  lease_ms         how long they run from now
--          7  follows          1 = the broker's clock follows that of Redis
--          8.. id              of each message, none twice
-- RETURNS  for each id 1 if its lease was set, else 0
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:extend

-- include lib/answer.lua
-- include lib/argv_rest.lua
-- include lib/feed_held.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_record.lua
-- include lib/keep_time.lua
-- include lib/late_ms.lua
-- include lib/many.lua

local NEVER_MS = 2 ^ 62  -- model/limits.py:NEVER_MS

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local group, lease_ms = ARGV[5], tonumber(ARGV[6])
local ids = argv_rest(8)
local deadline_ms = string.format('%d', now_ms + lease_ms + late_ms(now_ms, ARGV[7]))

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

-- A claim holds messages without a deadline: they are not leased.
local function is_lease(ends_ms)
  return ends_ms and ends_ms < NEVER_MS
end

local keys = feed_group_keys(feed, group)
local held, detached = feed_held(feed, keys, ids, now_ms)
local results, there, flushed, extended = {}, {}, {}, {}
for at, id in ipairs(ids) do
  local scored = is_lease(held[at]) and there or is_lease(detached[at]) and flushed
  results[at] = scored and 1 or 0
  if scored then
    scored[#scored + 1], scored[#scored + 2] = deadline_ms, id
    extended[#extended + 1] = id
  end
end
if #extended > 0 then
  many('ZADD', keys.held, there)
  many('ZADD', keys.detached, flushed)
  redis.call('ZADD', feed.deadlines, 'LT', deadline_ms, group)
  redis.call('ZADD', feed.alarms, 'LT', deadline_ms, feed.queue)
  feed_record(feed, HELD, NONE, group, extended)
  keep_time(feed.prefix, now_ms)
end
return answer(results)
