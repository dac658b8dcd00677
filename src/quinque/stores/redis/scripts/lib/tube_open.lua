-- tube_open(slot, name, now_ms): the tube, which is there, as it was last left; once per script. It
-- lies in these keys, where an id has 16 digits, so that ids sort as the numbers they are:
--
--   worklist:<name>     HASH  family, kind, settings, the number of the next task, what was counted
--   tasks:<name>        HASH  id -> the task (lib/tube_load.lua)
--   bodies:<name>       HASH  id -> its body, if that is long
--   ready:<name>        ZSET  id by priority: what may be taken; where there are lanes, the first
--                             ready task of each that has room
--   delayed:<name>      ZSET  id by priority
--   dead:<name>         ZSET  id by priority, of tasks that are buried
--   taken:<name>        HASH  id -> the session that has taken it
--   due:<name>          ZSET  id by when something next happens to it by time alone (ms), if ever
--   lanes:<name>        HASH  lane -> how many of it are taken, which id of it is in `ready`
--   lane_tasks:<name>   ZSET  length:lane, priority, id, of each ready task, all by 0
--
-- SAME AS engine/tubes/tube.py:Tube
local opened_tubes = {}

-- As model/tube_ops.py has them.
local TUBE_KINDS = {
  fifo = {},
  fifottl = {has_times = true, ends_taken = true},
  limfifottl = {has_times = true, ends_taken = true, is_bounded = true},
  utube = {has_lanes = true},
  utubettl = {has_times = true, has_lanes = true},
}

local function tube_open(slot, name, now_ms)
  local tube = opened_tubes[name]
  if tube then
    return tube
  end
  local of_tube = ':' .. name
  local fields = redis.call('HMGET', slot .. 'worklist' .. of_tube, 'kind', 'capacity', 'width')
  local kind = TUBE_KINDS[fields[1]]
  tube = {
    slot = slot,
    name = name,
    now_ms = now_ms,
    family = '5',
    kind = fields[1],
    has_times = kind.has_times,
    has_lanes = kind.has_lanes,
    ends_taken = kind.ends_taken,
    capacity = kind.is_bounded and tonumber(fields[2]) or 0,
    width = tonumber(fields[3]),
    tasks = slot .. 'tasks' .. of_tube,
    bodies = slot .. 'bodies' .. of_tube,
    ready = slot .. 'ready' .. of_tube,
    taken = slot .. 'taken' .. of_tube,
    due = slot .. 'due' .. of_tube,
    lanes = slot .. 'lanes' .. of_tube,
    lane_tasks = slot .. 'lane_tasks' .. of_tube,
    alarm_ms = kind.has_times and tonumber(redis.call('ZSCORE', slot .. 'alarms', name) or 0) or 0,
    counts = {},
    opened_lanes = {},
  }
  opened_tubes[name] = tube
  return tube
end
