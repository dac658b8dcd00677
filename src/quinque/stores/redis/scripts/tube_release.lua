-- tube_release.lua: tasks that the session has taken are ready, or delayed.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  session          who has taken them
--          6  delay_ms         0 = they are ready
--          7  pri              their priority from here on; '' = as it was
--          8  ttl_ms           how long they live from now; '' = as it was
--          9  has_body         1 = their body is
--         10  body             that one from here on
--         11  refuses          as in tube_put
--         12.. id              of each task, none twice
-- RETURNS  for each id the state and the body, nothing twice if the session has not taken it; the state
--          of one whose time is over is gone. Or the tube's kind, if it has no such terms
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/decide.py: come_back, change

-- include lib/argv_rest.lua
-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_enter.lua
-- include lib/tube_find.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include lib/tube_refuses.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local session, delay_ms, pri, ttl_ms = ARGV[5], tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local has_body, body, refuses, ids = ARGV[9] == '1', ARGV[10], ARGV[11], argv_rest(12)

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
elseif tube_refuses(tube, refuses) then
  return tube_answer(tube.kind)
end
if not tube.has_times then
  delay_ms, pri, ttl_ms = 0, '', nil
end

-- What the caller changes of the task is kept.
local function change(task)
  if pri ~= '' then
    task.pri = pri
  end
  if ttl_ms then
    task.ttl_ms = math.min(FOREVER_MS, math.max(0, now_ms - task.created_ms) + ttl_ms)
  end
  task.ttl_ms = math.min(FOREVER_MS, task.ttl_ms + delay_ms)
  if has_body then
    task.body = body
  end
  if pri ~= '' or ttl_ms or delay_ms > 0 or has_body then
    tube_keep(tube, task)
  end
end

tube_ripen(tube, ids)
local holders = many('HMGET', tube.taken, ids)
local views, released, over = {}, {}, {}
for at, task in ipairs(tube_load(tube, ids)) do
  views[2 * at - 1], views[2 * at] = false, false
  if task and holders[at] == session then
    task.state, task.session = 'leased', session
    tube_leave(tube, task)
    change(task)
    if delay_ms > 0 then
      tube_enter(tube, task, 'delayed', now_ms + delay_ms)
    else
      tube_enter(tube, task, 'ready')
    end
    local end_ms = tube_end_ms(task)
    local is_over = delay_ms == 0 and end_ms and end_ms <= now_ms
    if is_over then
      over[#over + 1] = task.id
    end
    released[#released + 1] = task.id
    views[2 * at - 1], views[2 * at] = is_over and 'gone' or task.state, tube_body(tube, task)
  end
end
tube_record(tube, delay_ms > 0 and DELAYED or RETURNED, NACKED, released)
tube_count(tube, 'release', #released)
if #over > 0 then
  tube_settle(tube, over)
end
return tube_answer(views)
