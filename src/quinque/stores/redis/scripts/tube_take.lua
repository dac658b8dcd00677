-- tube_take.lua: a session takes the first tasks of a tube, or of a lane of it; or each its own.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  session          who takes
--          6  most             up to this many
--          7  room_bytes       no more once the bodies have this size
--          8  has_lane         1 = of a lane
--          9  lane             that lane
--         10  refuses          as in tube_put
--         11  follows          1 = the broker's clock follows that of Redis
--         12.. session         who takes each of the tasks, if it is not all one
-- RETURNS  a list: id, body of each task; or the tube's kind, if it has no lanes; or 1: it must be
--          called again, for tasks whose time was over were in the way, more than one call removes
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/tube.py:take

-- include lib/argv_rest.lua
-- include lib/late_ms.lua
-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_find.lua
-- include lib/tube_lane.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include lib/tube_refuses.lua
-- include rarely lib/tube_unfound.lua

local TAKE_MOST = 1000  -- looked at together
local LOOKED_MOST, LOOK_MOST = 2000, 500  -- at tasks whose time was over: some 10 ms of work
local AGAIN = 1

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local session, most, room_bytes = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local has_lane, lane_name, refuses, follows = ARGV[8] == '1', ARGV[9], ARGV[10], ARGV[11]
local sessions = argv_rest(12)

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
elseif tube_refuses(tube, refuses) then
  return tube_answer(tube.kind)
end

-- The ids of tasks that may be taken together.
local function pick(count)
  if has_lane then
    local head = tube.has_lanes and tube_lane(tube, lane_name).head or ''
    return head ~= '' and {head} or {}
  end
  -- A lane that has room for more shows its next task when one is taken.
  count = tube.has_lanes and tube.width > 1 and 1 or math.min(count, TAKE_MOST)
  return redis.call('ZRANGE', tube.ready, 0, count - 1)
end

local from_ms = now_ms
if tube.has_times then
  from_ms = now_ms + late_ms(now_ms, follows)
end

-- When time brings it back, or ends it; nothing if it does neither.
local function due_of(task)
  local due_ms = task.ttr_ms < FOREVER_MS and from_ms + task.ttr_ms or nil
  local end_ms = tube.ends_taken and tube_end_ms(task)
  return end_ms and (not due_ms or end_ms < due_ms) and end_ms or due_ms
end

local given, ids, taken, held, due, undue = {}, {}, {}, {}, {}, {}
local looked = 0  -- at tasks that cannot be taken

-- Take those of these tasks for which there is room; none of them is ready any more. Returns whether
-- ids had no task.
local function take(picked)
  local count, members, unfound = 0, {}, {}
  local read = (tube.has_times or tube.has_lanes) and tube_read or tube_read_plain
  for at, text in ipairs(many('HMGET', tube.tasks, picked)) do
    if room_bytes <= 0 then
      break
    end
    local id, number = picked[at], #ids + 1
    local task = text and read(id, text)
    local body = task and tube_body(tube, task)
    count = at
    if body then
      room_bytes = room_bytes - #body
      ids[number] = id
      given[2 * number - 1], given[2 * number] = id, body
      local taker = sessions[number] or session
      local own = held[taker]
      if not own then
        own = {}
        held[taker] = own
      end
      taken[2 * number - 1], taken[2 * number] = id, taker
      own[#own + 1], own[#own + 2] = ARGV[2], tube_held_as(tube, id)
      if tube.has_times then
        local due_ms = due_of(task)
        if due_ms then
          due[#due + 1], due[#due + 2] = string.format('%d', due_ms), id
        elseif task.ttl_ms < FOREVER_MS then
          undue[#undue + 1] = id
        end
      end
      if tube.has_lanes then
        members[#members + 1] = tube_lane_member(task)
        local lane = tube_lane(tube, task.lane)
        lane.taken = lane.taken + 1
      end
    else
      unfound[#unfound + 1] = id
    end
  end
  many('ZREM', tube.lane_tasks, members)
  if not tube.has_lanes and count > 0 then
    redis.call('ZREMRANGEBYRANK', tube.ready, 0, count - 1)  -- as they were picked
  end
  if #unfound > 0 then
    tube_unfound(tube, unfound)
    looked = looked + #unfound
  end
  tube_show_all(tube, true)
  return #unfound > 0
end

-- More was due than was settled: whether some of it is in the way, which is settled then.
local function clear_way(picked)
  if tube.has_lanes then
    looked = looked + math.max(#picked, LOOK_MOST)
    return tube_ripen(tube, picked)
        and tube_settle_some(tube, LOOK_MOST)
  end
  local first = redis.call('ZRANGE', tube.ready, 0, math.max(#picked, LOOK_MOST) - 1)
  looked = looked + #first
  return tube_ripen(tube, first)
end

while #ids < most and room_bytes > 0 do
  local picked = pick(most - #ids)
  if #picked == 0 then
    break
  elseif (tube.is_flooded and clear_way(picked) or take(picked)) and looked >= LOOKED_MOST then
    if #ids == 0 then
      return tube_answer(AGAIN)
    end
    break
  end
end
if #ids > 0 then
  many('HSET', tube.taken, taken)
  local takers = {}
  for taker, own in pairs(held) do
    many('ZADD', slot .. 'taken_by:' .. taker, own)
    takers[#takers + 1] = taker
  end
  many('SADD', slot .. 'takers', takers)
  many('ZADD', tube.due, due)
  many('ZREM', tube.due, undue)
  tube_record(tube, DELIVERED, NONE, ids)
  tube_count(tube, 'take', #ids)
end
return tube_answer(given)
