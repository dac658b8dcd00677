-- items_look_at.lua: a queue of items as it is now.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
-- RETURNS  as lib/work_view.lua has it, or nothing if it is not there
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  engine/work/views.py:queue_view

-- include lib/items_find.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most = ARGV[5]

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return items_answer(false)
end
return items_answer({
  redis.call('LLEN', list.queue),
  0,
  redis.call('LLEN', list.processing),
  0,
  math.max(0, now_ms - list.since_ms),
  math.max(0, now_ms - list.active_ms),
  list.came,
  list.went,
  0,
  0,
  0,
  0,
  0,
})
