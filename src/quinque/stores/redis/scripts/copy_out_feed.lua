-- copy_out_feed.lua: messages of a feed, for a copy, in their order.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  after            the place of the last that has gone before
--          3  count            up to this many
--          4  room_bytes       and no more once the bodies have this size
-- RETURNS  id, place, expires_ms, is_single, body, and a list: group, when its lease ends (ms, 0 =
--          it may have it again), how often it was delivered, of each group that has it; of each
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:kept_in_feed

-- include lib/answer.lua
-- include lib/feed_group_keys.lua
-- include lib/feed_keys.lua
-- include lib/many.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local after, count, room_bytes = ARGV[2], ARGV[3], tonumber(ARGV[4])

local ids, rows = {}, {}
local placed = redis.call('ZRANGEBYSCORE', feed.order, '(' .. after, '+inf', 'WITHSCORES',
    'LIMIT', 0, count)
for at = 1, #placed, 2 do
  if room_bytes > 0 then
    local body = redis.call('HGET', feed.bodies, placed[at])
    room_bytes = room_bytes - #body
    ids[#ids + 1] = placed[at]
    rows[#rows + 1] = {placed[at], tonumber(placed[at + 1]), 0, 0, body, {}}
  end
end

for at, expires_ms in ipairs(many('ZMSCORE', feed.expiries, ids)) do
  rows[at][3] = tonumber(expires_ms or 0)
end
for at, is_single in ipairs(many('SMISMEMBER', feed.singles, ids)) do
  rows[at][4] = is_single
end
for _, group in ipairs(redis.call('HKEYS', feed.groups)) do
  local keys = feed_group_keys(feed, group)
  if redis.call('EXISTS', keys.held, keys.again) > 0 then
    local held = many('ZMSCORE', keys.held, ids)
    local again = many('ZMSCORE', keys.again, ids)
    local deliveries = many('ZMSCORE', keys.deliveries, ids)
    for at, row in ipairs(rows) do
      if held[at] or again[at] then
        local holds = row[6]
        holds[#holds + 1] = group
        holds[#holds + 1] = tonumber(held[at] or 0)
        holds[#holds + 1] = tonumber(deliveries[at] or 1)
      end
    end
  end
end
return answer(rows)
