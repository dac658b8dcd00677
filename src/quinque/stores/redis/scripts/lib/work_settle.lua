-- work_settle(list, most): what time made due in the worklist is carried out, `most` of each kind, if
-- the script may settle as many.
-- SAME AS engine/work/due.py:settle
--
-- include lib/work_load_listed.lua
-- include lib/work_is_over.lua
-- include lib/work_expire.lua
-- include lib/work_come_back.lua
-- include lib/settle_room.lua
local function work_load_due(list, kind, most)
  local ids = redis.call('ZRANGEBYSCORE', list.slot .. kind .. ':' .. list.name, '-inf', list.now_ms,
      'LIMIT', 0, settle_room(most))
  settle_note(#ids)
  return work_load_listed(list, ids)
end

local function work_settle(list, most)
  local slot, now_ms, gone = list.slot, list.now_ms, {}
  list.firsts = nil
  for _, message in ipairs(work_load_due(list, 'expires', most)) do
    if not work_died_before(message) then
      gone[#gone + 1] = message
    end
  end
  work_expire(list, gone)
  gone = {}
  for _, message in ipairs(work_load_due(list, 'due', most)) do
    if work_is_over(message, now_ms) and not work_died_before(message) then
      gone[#gone + 1] = message
    else
      work_come_back(message)
    end
  end
  work_expire(list, gone)
  if list.rate_count > 0 and redis.call('ZCARD', slot .. 'ready:' .. list.name) > 0 then
    work_wake(list)
  end
  if list.refused_until_ms <= now_ms then
    list.refused_until_ms = 0
  end
  list.is_changed = true
end
