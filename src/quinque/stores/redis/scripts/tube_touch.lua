-- tube_touch.lua: tasks that the session has taken have longer to run and to live.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  session          who has taken them
--          6  by_ms            this much longer, more than 0
--          7.. id              of each task, none twice
-- RETURNS  for each id the body, nothing if the session has not taken it; or the tube's kind, if its
--          tasks have no times and the session has taken one of them
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/apply.py:apply_touched

-- include lib/argv_rest.lua
-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_find.lua
-- include lib/tube_load.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local session, by_ms, ids = ARGV[5], tonumber(ARGV[6]), argv_rest(7)

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end

local function touch(task)
  local was_due_ms = tonumber(redis.call('ZSCORE', tube.due, task.id) or nil)
  task.ttr_ms = math.min(FOREVER_MS, task.ttr_ms + by_ms)
  task.ttl_ms = math.min(FOREVER_MS, task.ttl_ms + by_ms)
  tube_keep(tube, task)
  -- Whichever of the two comes first still does, unless it never comes any more.
  local due_ms = was_due_ms and was_due_ms + by_ms
  if task.ttr_ms >= FOREVER_MS then
    due_ms = tube.ends_taken and tube_end_ms(task)
  end
  if due_ms then
    redis.call('ZADD', tube.due, string.format('%d', due_ms), task.id)
  else
    redis.call('ZREM', tube.due, task.id)
  end
end

tube_ripen(tube, ids)
local holders = many('HMGET', tube.taken, ids)
local bodies, touched = {}, 0
for at, task in ipairs(tube_load(tube, ids)) do
  bodies[at] = false
  if task and holders[at] == session then
    if not tube.has_times then
      return tube_answer(tube.kind)
    end
    touch(task)
    touched, bodies[at] = touched + 1, tube_body(tube, task)
  end
end
tube_count(tube, 'touch', touched)
return tube_answer(bodies)
