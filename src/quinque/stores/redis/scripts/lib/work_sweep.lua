-- work_sweep(slot, index, queue, family, now_ms, most): messages of a worklist that is not there any
-- more are gone: `most` of those whose ids the ZSET has. Returns whether there are more of them. Keys
-- of the worklist that are theirs are free: others may be those of claimed messages.
--
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/record.lua
-- include lib/work_kept.lua
local function work_free_swept(slot, queue, ids)
  local keys, theirs, names, free = slot .. 'keys:' .. queue, {}, {}, {}
  if not is_there(keys) then
    return
  end
  for at, kept in ipairs(many('HMGET', slot .. 'messages', ids)) do
    local key = kept and select(2, work_unkept(kept)).key
    if key then
      names[#names + 1], theirs[#theirs + 1] = key, ids[at]
    end
  end
  for at, id in ipairs(many('HMGET', keys, names)) do
    if id == theirs[at] then
      free[#free + 1] = names[at]
    end
  end
  many('HDEL', keys, free)
end

local function work_sweep(slot, index, queue, family, now_ms, most)
  local ids = most > 0 and redis.call('ZRANGE', index, 0, most - 1) or {}
  if #ids == 0 then
    return redis.call('EXISTS', index) == 1
  end
  work_free_swept(slot, queue, ids)
  redis.call('ZREMRANGEBYRANK', index, 0, #ids - 1)
  for _, kind in ipairs({'messages', 'bodies', 'progress'}) do
    many('HDEL', slot .. kind, ids)
  end
  record(slot, now_ms, REMOVED, PURGED, family, queue, '', 0, ids)
  return redis.call('EXISTS', index) == 1
end
