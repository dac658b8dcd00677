-- settle.lua: what time made due in worklists of a slot is carried out, or a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      so many of each kind in each worklist at most
--          3.. queue, is_waited  of each worklist
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  stores/embedded/worklists.py:settle

-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]

for at = 3, #ARGV, 2 do
  local family = redis.call('HGET', slot .. 'queues', ARGV[at])
  if family then
    work_find(slot, ARGV[at], family, now_ms, settle_most, ARGV[at + 1] == '1')
  end
end
return work_answer(false)
