-- tube_put.lua: accept tasks into a tube, the first ones only if it has no room for all.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  ttl_ms           how long they live, without the delay; '' = as the tube has it
--          6  ttr_ms           how long they may be taken; '' = as the tube has it
--          7  pri              their priority; '' = as the tube has it
--          8  delay_ms         how long they are delayed
--          9  lane             theirs
--         10  refuses          '' or what to refuse: t = terms of time, l = lanes, where there are none
--         11.. body            of each task
-- RETURNS  a list: the number of the first task, how many there are, 1 if they are delayed; or the
--          tube's kind, if it has no such terms; or 1: it must be called again, and nothing was added
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/decide.py:put

-- include lib/answer.lua
-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_find.lua
-- include lib/tube_lane.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include lib/tube_refuses.lua

local EXPIRED_MOST = 1000  -- removed by one call: some 10 ms
local AGAIN = 1

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local delay_ms, lane, refuses = tonumber(ARGV[8]), ARGV[9], ARGV[10]

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
elseif tube_refuses(tube, refuses) then
  return tube_answer(tube.kind)
end

local task = {created_ms = now_ms, ttl_ms = FOREVER_MS, ttr_ms = FOREVER_MS, pri = '0', lane = 'nil'}
if tube.has_times then
  local set = redis.call('HMGET', slot .. 'worklist:' .. queue, 'ttl_ms', 'ttr_ms', 'pri')
  task.ttl_ms = tonumber(ARGV[5] ~= '' and ARGV[5] or set[1])
  task.ttr_ms = tonumber(ARGV[6] ~= '' and ARGV[6] or set[2])
  task.pri = ARGV[7] ~= '' and ARGV[7] or set[3]
  task.ttl_ms = math.min(FOREVER_MS, task.ttl_ms + delay_ms)
  task.ttr_ms = math.min(FOREVER_MS, task.ttr_ms)
else
  delay_ms = 0
end
if tube.has_lanes then
  task.lane = lane
end

local count = #ARGV - 10
if tube.capacity > 0 then
  -- Expired tasks are not counted. There may be any number, so some are removed by each call.
  if tube.is_flooded and redis.call('HLEN', tube.tasks) + count > tube.capacity then
    tube_settle_some(tube, EXPIRED_MOST)
    if tube.is_flooded and redis.call('HLEN', tube.tasks) + count > tube.capacity then
      return tube_answer(AGAIN)
    end
  end
  count = math.max(0, math.min(count, tube.capacity - redis.call('HLEN', tube.tasks)))
end
local state = delay_ms > 0 and 'delayed' or 'ready'
if count == 0 then
  return tube_answer({0, 0, 0})
end
local number = redis.call('HINCRBY', slot .. 'worklist:' .. queue, 'number', count) - count
local begin, begin_long = tube_begin(task, false), tube_begin(task, true)
local texts, long, scored, ids, sizes = {}, {}, {}, {}, {}
local is_in_lane = tube.has_lanes and state == 'ready'
for at = 1, count do
  local id, body = string.format('%016.0f', number + at - 1), ARGV[10 + at]
  ids[at], sizes[at] = id, #body
  if #body > TASK_BODY_MOST_BYTES then
    texts[2 * at - 1], texts[2 * at] = id, begin_long
    long[#long + 1], long[#long + 2] = id, body
  else
    texts[2 * at - 1], texts[2 * at] = id, begin .. body
  end
  task.id = id
  scored[2 * at - 1] = is_in_lane and '0' or task.pri
  scored[2 * at] = is_in_lane and tube_lane_member(task) or id
end
many('HSET', tube.tasks, texts)
many('HSET', tube.bodies, long)
if is_in_lane then
  tube_lane(tube, lane).has_more = true
  many('ZADD', tube.lane_tasks, scored)
else
  many('ZADD', slot .. state .. ':' .. queue, scored)
  if state == 'ready' then
    ready_names[queue] = true
  end
end
local due_ms = delay_ms > 0 and now_ms + delay_ms or tube_end_ms(task)
if due_ms then
  local text = string.format('%d', due_ms)
  for at, id in ipairs(ids) do
    scored[2 * at - 1], scored[2 * at] = text, id
  end
  many('ZADD', tube.due, scored)
end
tube_record(tube, ADDED, NONE, ids, sizes)
if state == 'delayed' then
  tube_record(tube, DELAYED, NONE, ids)
end
tube_count(tube, 'put', count)
return tube_answer({number, count, state == 'delayed' and 1 or 0})
