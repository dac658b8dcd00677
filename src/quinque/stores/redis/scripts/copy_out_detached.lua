-- copy_out_detached.lua: leases of a group on messages that were flushed, for a copy.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  group            who holds them
--          3  from             skip this many
--          4  count            up to this many
-- RETURNS  id, when its lease ends (ms), when its life ends (ms), of each
-- ERRORS   none
-- SAME AS  stores/portable.py:Detached

-- include lib/answer.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_keys.lua
-- include lib/many.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local keys = feed_group_keys(feed, ARGV[2])
local from, count = tonumber(ARGV[3]), tonumber(ARGV[4])

local rows, ids = {}, {}
local held = redis.call('ZRANGE', keys.detached, from, from + count - 1, 'WITHSCORES')
for at = 1, #held, 2 do
  ids[#ids + 1] = held[at]
  rows[#rows + 1] = {held[at], tonumber(held[at + 1])}
end
for at, expires_ms in ipairs(many('ZMSCORE', keys.detached_expiries, ids)) do
  rows[at][3] = tonumber(expires_ms or 0)
end
return answer(rows)
