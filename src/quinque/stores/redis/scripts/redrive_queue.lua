-- redrive_queue.lua: the first dead messages of a worklist are ready, as if they were new.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  count            up to this many
-- RETURNS  how many
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/decide.py:redrive

-- include lib/work_find.lua
-- include lib/work_load_listed.lua
-- include lib/work_redrive.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, most = ARGV[5], tonumber(ARGV[6])

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local ids = list and redis.call('ZRANGE', slot .. 'dead:' .. queue, 0, most - 1) or {}
for _, message in ipairs(list and work_load_listed(list, ids) or {}) do
  work_redrive(message)
end
return work_answer(#ids)
