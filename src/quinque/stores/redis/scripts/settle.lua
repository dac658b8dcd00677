-- settle.lua: what time made due in worklists of a slot is carried out, or a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      up to this many of each kind in each worklist
--          3.. queue, is_waited  of each worklist; '' = it stays, though it is idle
-- RETURNS  how many messages were settled
-- ERRORS   none
-- SAME AS  stores/embedded/worklists.py:settle

-- include lib/settle_room.lua
-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]

for at = 3, #ARGV, 2 do
  local family = redis.call('HGET', slot .. 'queues', ARGV[at])
  if family then
    local is_waited = nil
    if ARGV[at + 1] ~= '' then
      is_waited = ARGV[at + 1] == '1'
    end
    work_find(slot, ARGV[at], family, now_ms, settle_most, is_waited)
  end
end
return work_answer(settled_count)
