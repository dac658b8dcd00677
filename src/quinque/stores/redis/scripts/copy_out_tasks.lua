-- copy_out_tasks.lua: tasks of a tube, for a copy.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  queue            the tube, which is there
--          2  room_bytes       no more once the bodies have this size
--          3.. id              of each task
-- RETURNS  how many ids were looked at; id, pri, lane, state, created_ms, ttl_ms, ttr_ms, due_ms (0 =
--          nothing is), session, body of each task that is there
-- ERRORS   none
-- SAME AS  engine/tubes/decide.py:kept

-- include lib/answer.lua
-- include lib/argv_rest.lua
-- include lib/tube_load.lua
-- include lib/tube_open.lua
-- include lib/tube_state.lua

local tube = tube_open(slot_prefix(KEYS[1]), ARGV[1], 0)
local room_bytes, ids = tonumber(ARGV[2]), argv_rest(3)

local rows, looked = {}, 0
for at, task in ipairs(tube_state(tube, tube_load(tube, ids))) do
  if room_bytes <= 0 then
    break
  end
  looked = at
  if task then
    local is_timed = task.state == 'leased' or task.state == 'delayed'
    room_bytes = room_bytes - #tube_body(tube, task)
    rows[#rows + 1] = {
      task.id,
      task.pri,
      task.lane,
      task.state,
      task.created_ms,
      task.ttl_ms,
      task.ttr_ms,
      is_timed and redis.call('ZSCORE', tube.due, task.id) or '0',
      task.session or '',
      task.body,
    }
  end
end
return answer({looked, rows})
