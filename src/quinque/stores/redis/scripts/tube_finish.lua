-- tube_finish.lua: tasks are gone: done by the session that has taken them, or deleted.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  is_ack           1 = done
--          6.. id              of each task; if it is done, followed by the session that says so
-- RETURNS  for each id the body; nothing if there is no such task, or the session has not taken it
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/decide.py: ack, delete

-- include lib/argv_rest.lua
-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_find.lua
-- include lib/tube_load.lua
-- include lib/tube_remove.lua
-- include lib/tube_state.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local is_ack, ids, sessions = ARGV[5] == '1', argv_rest(6), {}
if is_ack then
  local pairs_of = ids
  ids = {}
  for at = 1, #pairs_of, 2 do
    ids[#ids + 1], sessions[#sessions + 1] = pairs_of[at], pairs_of[at + 1]
  end
end

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end
tube_ripen(tube, ids)
local holders = is_ack and many('HMGET', tube.taken, ids)
local bodies, gone = {}, {}
local is_plain = is_ack and not tube.has_times and not tube.has_lanes
for at, task in ipairs(tube_load(tube, ids, is_plain and tube_read_plain)) do
  bodies[at] = false
  if task and is_ack and holders[at] == sessions[at] then
    task.state, task.session = 'leased', holders[at]
    gone[#gone + 1], bodies[at] = task, tube_body(tube, task)
  elseif task and not is_ack then
    gone[#gone + 1], bodies[at] = tube_state(tube, {task})[1], tube_body(tube, task)
  end
end
tube_remove(tube, gone, is_ack and ACKED or REMOVED, is_ack and NONE or DELETED)
tube_count(tube, is_ack and 'ack' or 'delete', #gone)
return tube_answer(bodies)
