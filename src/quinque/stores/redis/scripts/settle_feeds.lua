-- settle_feeds.lua: carry out what is due in feeds, or a part of it.
--
-- KEYS     1  slot       HASH  the slot of the feeds
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      up to this many due messages of each
--          3.. queue           of each
-- RETURNS  how many messages were settled
-- ERRORS   none
-- SAME AS  stores/embedded/feed_operations.py:settle

-- include lib/answer.lua
-- include lib/feed_keys.lua
-- include lib/argv_rest.lua
-- include lib/feed_settle.lua
-- include lib/keep_time.lua
-- include lib/settle_room.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), tonumber(ARGV[2])
for _, name in ipairs(argv_rest(3)) do
  feed_settle(feed_keys(slot, name), now_ms, settle_most)
end
keep_time(slot, now_ms)
return answer(settled_count)
