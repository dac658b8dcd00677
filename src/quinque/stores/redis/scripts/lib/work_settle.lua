-- work_settle(list, most): what time made due in the worklist is carried out, `most` of each kind.
-- SAME AS engine/work/due.py:settle
--
-- include lib/work_load.lua
-- include lib/work_is_over.lua
-- include lib/work_remove.lua
-- include lib/work_come_back.lua
local function work_settle(list, most)
  local slot, now_ms, gone = list.slot, list.now_ms, {}
  for _, message in ipairs(work_load(slot, redis.call('ZRANGEBYSCORE',
      slot .. 'expires:' .. list.name, '-inf', now_ms, 'LIMIT', 0, most), now_ms)) do
    if not work_died_before(message) then
      gone[#gone + 1] = message
    end
  end
  work_remove(list, gone, EXPIRED, NONE)
  gone = {}
  for _, message in ipairs(work_load(slot, redis.call('ZRANGEBYSCORE',
      slot .. 'due:' .. list.name, '-inf', now_ms, 'LIMIT', 0, most), now_ms)) do
    if work_is_over(message, now_ms) and not work_died_before(message) then
      gone[#gone + 1] = message
    else
      work_come_back(message)
    end
  end
  work_remove(list, gone, EXPIRED, NONE)
  if list.rate_count > 0 and redis.call('ZCARD', slot .. 'ready:' .. list.name) > 0 then
    work_wake(list)
  end
  if list.refused_until_ms <= now_ms then
    list.refused_until_ms = 0
  end
  list.is_changed = true
end
