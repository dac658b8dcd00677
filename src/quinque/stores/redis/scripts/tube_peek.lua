-- tube_peek.lua: tasks as they are now.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  room_bytes       look at no more once the bodies have this size
--          6.. id              of each task
-- RETURNS  for each id that was looked at the state and the body, nothing twice if there is no such
--          task
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  model/tube_ops.py:PeekTasks

-- include lib/argv_rest.lua
-- include lib/tube_answer.lua
-- include lib/tube_find.lua
-- include lib/tube_load.lua
-- include lib/tube_state.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local room_bytes, ids = tonumber(ARGV[5]), argv_rest(6)

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end
tube_ripen(tube, ids)
local found = {}
for at, task in ipairs(tube_state(tube, tube_load(tube, ids))) do
  if room_bytes <= 0 then
    break
  end
  found[2 * at - 1] = task and task.state
  found[2 * at] = task and tube_body(tube, task)
  room_bytes = room_bytes - (task and #task.body or 0)
end
return tube_answer(found)
