-- settle_tubes.lua: what time made due in tubes of a slot is carried out, or a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the tubes' family
--          2  now_ms           the broker's clock
--          3  settle_most      up to this many tasks of each tube
--          4.. queue           each tube
-- RETURNS  how many messages were settled
-- ERRORS   none
-- SAME AS  engine/tubes/due.py:settle

-- include lib/settle_room.lua
-- include lib/tube_answer.lua
-- include lib/tube_find.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]

for at = 4, #ARGV do
  tube_find(slot, ARGV[at], family, now_ms, settle_most)
end
return tube_answer(settled_count)
