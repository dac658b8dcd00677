-- tube_scan.lua: the tubes of a slot, some at a time, in the order they were made.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the tubes' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many tasks in each
--          4  from             the number of the first
--          5  count            look at up to this many worklists
-- RETURNS  the number to go on with, 0 at the end; how many worklists were looked at; of each tube
--          what lib/tube_view.lua has
-- ERRORS   none
-- SAME AS  model/tube_ops.py:FindTubes

-- include lib/scan_from.lua
-- include lib/tube_answer.lua
-- include lib/tube_find.lua
-- include lib/tube_view.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most, from, count = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

if not redis.call('HGET', KEYS[1], 'has_tubes') then
  return tube_answer({0, 0, {}})
end
local names, next_number = scan_from(slot .. 'worklists', from, count)
local views = {}
for _, name in ipairs(names) do
  if redis.call('HGET', slot .. 'queues', name) == family then
    local tube = tube_find(slot, name, family, now_ms, settle_most)
    tube_close()
    views[#views + 1] = tube_view(tube)
  end
end
return tube_answer({next_number, #names, views})
