-- tube_kick.lua: buried tasks of a tube are ready: the first ones, or these.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  most             the first ones, up to this many; nothing where ids are given
--          6.. id              of each task, none twice; what is not buried stays as it is
-- RETURNS  how many; 1 if tasks that had expired were in the way, more than one call removes
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  model/tube_ops.py:KickTasks

-- include lib/argv_rest.lua
-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_count.lua
-- include lib/tube_enter.lua
-- include lib/tube_find.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include rarely lib/tube_unfound.lua

local LOOKED_MOST, LOOK_MOST = 2000, 500  -- at tasks whose time was over: some 10 ms of work

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local most, named = tonumber(ARGV[5]), argv_rest(6)

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end
local dead, ids, is_cut = slot .. 'dead:' .. queue, {}, false

-- The first tasks, none of which has expired; none if there are too many that have.
local function first_ones()
  local looked = 0
  while looked < LOOKED_MOST do
    local count = tube.is_flooded and math.max(most, LOOK_MOST) or most
    local found = redis.call('ZRANGE', dead, 0, count - 1)
    looked = looked + #found
    if not tube_ripen(tube, found) then
      for at = #found, most + 1, -1 do
        found[at] = nil
      end
      return found
    end
  end
  is_cut = true
  return {}
end

if most then
  ids = most > 0 and first_ones() or {}
else
  tube_ripen(tube, named)
  for at, pri in ipairs(many('ZMSCORE', dead, named)) do
    ids[#ids + 1] = pri and named[at] or nil
  end
end
local kicked, unfound = {}, {}
for at, task in ipairs(tube_load(tube, ids)) do
  if task then
    task.state = 'dead'
    tube_leave(tube, task)
    tube_enter(tube, task, 'ready')
    kicked[#kicked + 1] = task.id
  else
    unfound[#unfound + 1] = ids[at]
  end
end
if #unfound > 0 then
  tube_unfound(tube, unfound)
  is_cut = true
end
tube_record(tube, RETURNED, REDRIVEN, kicked)
tube_count(tube, 'kick', #kicked)
return tube_answer({#kicked, is_cut and 1 or 0})
