-- work_close(): what the script changed in worklists is kept, and their alarms are set.
-- SAME AS engine/work/worklist.py:set_soonest
--
-- work_foresee(list, ids): reads what work_close needs, before the script writes: then a fault at
-- these reads leaves everything as it was. The messages of these ids, if any, are about to be removed;
-- work_foresee_end(list, kind, at_ms) says of messages that are put into `expires` or `due`.
--
-- include lib/many.lua
-- include lib/work_open.lua
-- include lib/work_is_vacant.lua
-- include lib/keep_time.lua

local NEVER_MS = 2 ^ 62  -- model/limits.py:NEVER_MS
local NEVER_FROM_MS = 2 ^ 50  -- no clock comes so far, and turns (lib/work_turns.lua) are beyond it
local QUEUE_IDLE_MOST_MS = 300000  -- model/limits.py:QUEUE_IDLE_MOST_MS

local function first_score(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) or NEVER_MS
end

local function work_foresee(list, ids)
  local gone, slot = {}, list.slot
  for _, id in ipairs(ids or {}) do
    gone[id] = true
  end
  read_time(slot)
  list.firsts = {}
  for _, kind in ipairs({'expires', 'due'}) do
    local first_ms = NEVER_MS
    local some = redis.call('ZRANGE', slot .. kind .. ':' .. list.name, 0, ids and #ids or 0,
        'WITHSCORES')
    for at = 1, #some, 2 do
      if not gone[some[at]] then
        first_ms = tonumber(some[at + 1])
        break
      end
    end
    list.firsts[kind] = first_ms
  end
end

local function work_foresee_end(list, kind, at_ms)
  if list.firsts then
    list.firsts[kind] = math.min(list.firsts[kind], at_ms)
  end
end

local function work_soonest(list)
  local slot, name, firsts = list.slot, list.name, list.firsts
  list.firsts = nil
  local soonest_ms = math.min(firsts and firsts.expires or first_score(slot .. 'expires:' .. name),
      firsts and firsts.due or first_score(slot .. 'due:' .. name))
  if list.ends_ms > 0 then
    soonest_ms = math.min(soonest_ms, list.ends_ms)
  end
  if soonest_ms >= NEVER_FROM_MS and not list.is_reliable and work_is_vacant(slot, name) then
    return math.max(list.active_ms, list.spared_ms) + QUEUE_IDLE_MOST_MS
  end
  if list.refused_until_ms > 0 and not list.is_paused_out
      and redis.call('ZCARD', slot .. 'ready:' .. name) > 0 then
    soonest_ms = math.min(soonest_ms, list.refused_until_ms)
  end
  return soonest_ms
end

-- The counters that have changed, as a list of names and values.
local function work_changes(list)
  local changes = {}
  for _, field in ipairs(WORK_COUNTED) do
    if list[field] ~= list.kept[field] then
      changes[#changes + 1] = field
      changes[#changes + 1] = string.format('%d', list[field])
      list.kept[field] = list[field]
    end
  end
  return changes
end

local function work_close()
  for _, list in pairs(opened) do
    if list.is_changed then
      local slot, name = list.slot, list.name
      local soonest_ms = work_soonest(list)
      many('HSET', slot .. 'worklist:' .. name, work_changes(list))
      if soonest_ms >= NEVER_FROM_MS then
        soonest_ms = 0
        if list.alarm_ms > 0 then
          redis.call('ZREM', slot .. 'alarms', name)
        end
      elseif soonest_ms ~= list.alarm_ms then
        redis.call('ZADD', slot .. 'alarms', string.format('%d', soonest_ms), name)
      end
      list.alarm_ms, list.is_changed = soonest_ms, false
      keep_time(slot, list.now_ms)
    end
  end
end
