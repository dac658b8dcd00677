-- settle_tubes.lua: what time made due in tubes of a slot is carried out, or a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the tubes' family
--          2  now_ms           the broker's clock
--          3  settle_most      so many tasks of each tube at most
--          4.. queue           each tube
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/tubes/due.py:settle

-- include lib/tube_answer.lua
-- include lib/tube_find.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]

for at = 4, #ARGV do
  local tube = tube_find(slot, ARGV[at], family, now_ms, settle_most)
  if tube and not tube.is_flooded
      and redis.call('HDEL', slot .. 'worklist:' .. tube.name, 'is_starved') == 1 then
    ready_names[tube.name] = true
  end
end
return tube_answer(false)
