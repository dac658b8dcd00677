-- stage_keep(batch, now_ms): what is counted of a batch is kept, and until when it is, if nobody
-- decides it.
--
-- include lib/keep_time.lua
-- include lib/stage_batch.lua

local STAGE_NEVER_MS = 2 ^ 62  -- model/limits.py:NEVER_MS

local function stage_keep(batch, now_ms)
  local ends_ms = batch.is_decided and STAGE_NEVER_MS or batch.began_ms + STAGE_KEPT_MS
  redis.call('HSET', batch.about, 'began_ms', string.format('%d', batch.began_ms),
      'is_decided', batch.is_decided and 1 or 0, 'chunks', batch.chunks,
      'body_bytes', string.format('%d', batch.body_bytes), 'left', batch.left,
      'family', batch.family)
  redis.call('ZADD', batch.slot .. 'timers', string.format('%d', ends_ms), batch.timer)
  keep_time(batch.slot, now_ms)
end
