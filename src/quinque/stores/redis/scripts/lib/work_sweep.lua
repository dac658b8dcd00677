-- work_sweep(slot, index, queue, family, now_ms, most): messages of a worklist that is not there any
-- more are gone: `most` of those whose ids the ZSET has. Returns whether there are more of them.
--
-- include lib/many.lua
-- include lib/record.lua
local function work_sweep(slot, index, queue, family, now_ms, most)
  local ids = most > 0 and redis.call('ZRANGE', index, 0, most - 1) or {}
  if #ids == 0 then
    return redis.call('EXISTS', index) == 1
  end
  redis.call('ZREMRANGEBYRANK', index, 0, #ids - 1)
  for _, kind in ipairs({'messages', 'bodies', 'progress'}) do
    many('HDEL', slot .. kind, ids)
  end
  record(slot, now_ms, REMOVED, PURGED, family, queue, '', 0, ids)
  return redis.call('EXISTS', index) == 1
end
