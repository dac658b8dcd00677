-- tube_look.lua: a tube as it is now.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
-- RETURNS  what lib/tube_view.lua has of it; nothing if there is none
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  model/tube_ops.py:LookAtTube

-- include lib/tube_answer.lua
-- include lib/tube_find.lua
-- include lib/tube_view.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
tube_close()
return tube_answer(tube and tube_view(tube))
