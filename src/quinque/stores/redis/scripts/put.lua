-- put.lua: store messages at the back of a feed, or one at its front.
--
-- KEYS     1  slot       HASH  the slot of the feed
-- ARGV     1  queue            its name
--          2  family           code of the family
--          3  now_ms           the broker's clock
--          4  settle_most      first settle up to this many due messages
--          5  stamp_us         the first place, at least, and the first id if none is chosen
--          6  step_us          from one id to the next
--          7  expires_ms       0 = never
--          8  is_single        1 = one group works each, and its ack removes it
--          9  to_front         1 = before all others
--         10  has_id           1 = the caller chose the id
--         11  id               that id
--         12.. body            of each message; with a chosen id, or to the front, of one
-- RETURNS  the stamp of the first message; nothing if a message has the id
-- ERRORS   WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/feed/decide.py:put

-- include lib/answer.lua
-- include lib/argv_rest.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_put_in.lua

local feed = feed_keys(slot_prefix(KEYS[1]), ARGV[1])
local family, now_ms, settle_most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local stamp_us, step_us = tonumber(ARGV[5]), tonumber(ARGV[6])
local expires_ms = tonumber(ARGV[7])
local is_single, to_front, has_id = ARGV[8] == '1', ARGV[9] == '1', ARGV[10] == '1'
local chosen_id = ARGV[11]
local bodies = argv_rest(12)

if not feed_open(feed, family, now_ms, settle_most) then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

return answer(feed_put_in(feed, bodies, stamp_us, step_us, expires_ms, {
  id = has_id and chosen_id or nil,
  to_front = to_front,
  is_single = is_single,
}))
