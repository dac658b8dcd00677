-- items_close(): what the script changed in queues of items is kept, and their alarms are set.
--
-- include lib/items_open.lua
-- include lib/keep_time.lua
-- include lib/many.lua
-- include lib/work_is_vacant.lua

local QUEUE_IDLE_MOST_MS = 300000  -- model/limits.py:QUEUE_IDLE_MOST_MS
local ITEMS_CLEAN_MS = 10000  -- model/limits.py:ITEMS_CLEAN_MS

local function items_soonest(list)
  local soonest_ms = list.clean_ms
  local first = redis.call('ZRANGE', list.due, 0, 0, 'WITHSCORES')
  if first[2] then
    soonest_ms = math.min(soonest_ms, math.floor(tonumber(first[2])))
  elseif work_is_vacant(list.slot, list.name) then
    local idle_ms = math.max(list.active_ms, list.spared_ms) + QUEUE_IDLE_MOST_MS
    soonest_ms = math.min(soonest_ms, idle_ms)
  end
  return soonest_ms
end

local function items_close()
  for _, list in pairs(opened_items) do
    if list.is_changed then
      if list.clean_ms == 0 then
        list.clean_ms = list.now_ms + ITEMS_CLEAN_MS
      end
      local changes = {}
      for _, field in ipairs(ITEMS_COUNTED) do
        if list[field] ~= list.kept[field] then
          changes[#changes + 1] = field
          changes[#changes + 1] = string.format('%d', list[field])
        end
      end
      many('HSET', list.slot .. 'worklist:' .. list.name, changes)
      local soonest_ms = items_soonest(list)
      if soonest_ms ~= list.alarm_ms then
        redis.call('ZADD', list.slot .. 'alarms', string.format('%d', soonest_ms), list.name)
      end
      keep_time(list.slot, list.now_ms)
    end
  end
end
