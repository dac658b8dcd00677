-- tube_bury.lua: bury tasks of any state, taken by any session.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5.. id              of each task, none twice
-- RETURNS  for each id the body, nothing if there is no such task
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/apply.py:apply_buried

-- include lib/argv_rest.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_enter.lua
-- include lib/tube_find.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include lib/tube_state.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ids = argv_rest(5)

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end
tube_ripen(tube, ids)
local bodies, buried = {}, {}
for at, task in ipairs(tube_state(tube, tube_load(tube, ids))) do
  bodies[at] = task and tube_body(tube, task)
  if task and task.state ~= 'dead' then
    tube_leave(tube, task)
    tube_enter(tube, task, 'dead')
    buried[#buried + 1] = task.id
  end
end
tube_record(tube, DEAD, ASKED, buried)
tube_count(tube, 'bury', #buried)
return tube_answer(bodies)
