-- tube_drop.lua: a tube is gone, or empty, with all that was in it.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  stays            1 = it is there, empty, and its ids begin at 0 again
-- RETURNS  how many tasks went
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
--          BUSYTUBE            tasks are taken, and it is not to stay
-- SAME AS  model/tube_ops.py: DropTube, TruncateTube

-- include lib/tube_answer.lua
-- include lib/tube_find.lua
-- include lib/tube_sweep.lua

local SWEEP_MOST = 2000  -- tasks told of at once: some 3 ms

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local stays = ARGV[5] == '1'

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
elseif not stays and redis.call('HLEN', tube.taken) > 0 then
  return tube_answer(redis.error_reply('BUSYTUBE There are taken tasks in the tube'))
end
tube_close()
opened_tubes[queue] = nil
local count = redis.call('HLEN', tube.tasks)
if count > SWEEP_MOST and is_recording then
  -- This many tasks are recorded later: only the sweep finds them from here on.
  local number = redis.call('HINCRBY', slot .. 'slot', 'last_gone', 1)
  local timer = string.format('swept:%d:', number) .. queue
  redis.call('RENAME', tube.tasks, slot .. timer)
  redis.call('ZADD', slot .. 'timers', string.format('%d', now_ms), timer)
  tells_timers = true
else
  tube_sweep(slot, tube.tasks, queue, family, now_ms)
end
redis.call('UNLINK', tube.tasks, tube.bodies, tube.ready, tube.taken, tube.due, tube.lanes, tube.lane_tasks,
    slot .. 'delayed:' .. queue, slot .. 'dead:' .. queue)
redis.call('ZREM', slot .. 'alarms', queue)
if tube.capacity > 0 then
  ready_names[queue] = true  -- a put that waits for room has room, or no tube
end
if stays then
  redis.call('HDEL', slot .. 'worklist:' .. queue, 'number')
else
  work_forget(slot, queue)
end
keep_time(slot, now_ms)
return tube_answer(count)
