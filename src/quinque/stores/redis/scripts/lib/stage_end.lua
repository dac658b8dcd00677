-- stage_end(batch, until_ms, now_ms): the batch is published. Its run keeps the newest number, the
-- content of that batch, and the longest time: a half published batch may end after a newer one.
-- SAME AS stores/embedded/staged.py:mark_after
--
-- include lib/keep_time.lua
-- include lib/stage_batch.lua

local function stage_end(batch, until_ms, now_ms)
  stage_forget(batch)
  local number, content, mark = batch.number, batch.content, batch.mark
  if mark and mark.number > number then
    number, content = mark.number, mark.content
  end
  if mark then
    until_ms = until_ms > 0 and mark.until_ms > 0 and math.max(until_ms, mark.until_ms) or 0
  end
  local kept = string.format('%d %d', number, until_ms)
  local published, timers = batch.slot .. 'published', batch.slot .. 'timers'
  redis.call('HSET', published, batch.run, content == '' and kept or kept .. ' ' .. content)
  if until_ms == 0 then
    redis.call('ZREM', timers, 'published:' .. batch.run)
  else
    redis.call('ZADD', timers, string.format('%d', until_ms), 'published:' .. batch.run)
  end
  keep_time(batch.slot, now_ms)
end
