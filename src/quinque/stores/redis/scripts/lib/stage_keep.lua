-- stage_keep(batch, now_ms): store the counters of a batch, and when it ends if it is not decided, or
-- when brokers go on with it if it is.
--
-- include lib/keep_time.lua
-- include lib/slot_begin.lua
-- include lib/stage_batch.lua

local STAGE_GOES_ON_MS = 5000  -- model/limits.py:STAGE_GOES_ON_MS

local function stage_keep(batch, now_ms)
  local due_ms = batch.is_decided and now_ms + STAGE_GOES_ON_MS or batch.began_ms + STAGE_KEPT_MS
  slot_begin(batch.slot)
  redis.call('HSET', batch.about, 'began_ms', string.format('%d', batch.began_ms),
      'is_decided', batch.is_decided and 1 or 0, 'chunks', batch.chunks,
      'body_bytes', string.format('%d', batch.body_bytes), 'left', batch.left,
      'family', batch.family, 'content', batch.content, 'keep_ms', string.format('%d', batch.keep_ms))
  redis.call('ZADD', batch.slot .. 'timers', string.format('%d', due_ms), batch.timer)
  if batch.is_decided then
    redis.call('ZREM', batch.undecided, batch.number_text)
  else
    redis.call('ZADD', batch.undecided, batch.number_text, batch.number_text)
  end
  keep_time(batch.slot, now_ms)
end
