-- work_reset(slot, name, family, now_ms): the worklist, in which no message is left, is gone, and what
-- was set for it. One of which messages are claimed is as if it were new; keys that are left are
-- theirs. Returns whether it is there.
--
-- include lib/is_there.lua
-- include lib/work_forget.lua
local function work_reset(slot, name, family, now_ms)
  local claimed = tonumber(redis.call('HGET', slot .. 'worklist:' .. name, 'claimed') or 0)
  local keys, kept = slot .. 'keys:' .. name, slot .. 'kept_keys'
  local has_keys = claimed > 0 and is_there(keys)
  if has_keys then
    redis.call('RENAME', keys, kept)
  end
  work_forget(slot, name)
  if claimed > 0 then
    redis.call('HSET', slot .. 'queues', name, family)
    redis.call('ZADD', slot .. 'worklists',
        redis.call('HINCRBY', slot .. 'slot', 'last_number', 1), name)
    redis.call('HSET', slot .. 'worklist:' .. name, 'since_ms', now_ms, 'active_ms', now_ms,
        'family', family, 'claimed', claimed)
  end
  if has_keys then
    redis.call('RENAME', kept, keys)
  end
  return claimed > 0
end
