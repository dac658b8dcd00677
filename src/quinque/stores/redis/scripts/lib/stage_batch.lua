-- stage_batch(slot, queue, sink, run, number, now_ms): what is known of a batch.
--
--   is_there       something is staged for it, or it is decided
--   is_decided     it takes no more
--   family         code of the family it is staged for; false if it is not there
--   is_published   it was wholly published, or one of a larger number of its run was
--   mark           of the newest batch of its run that was published: number, until_ms, content; nil if
--                  none is remembered
--   keep_ms        how long it is remembered that it was published, once it is decided; 0 = without end
--   content        stands for what is in it, once it is decided; empty if unknown
--   about, parts   keys: what is counted; "part attempt chunk" -> pieces messages body_bytes
--   rows, todo     keys: "part attempt chunk piece" -> packed messages; those that have to move
--   undecided      key: the numbers of the staged batches of its run that are not decided
--
-- stage_forget(batch): nothing is staged for it.
--
-- include lib/answer.lua
local STAGE_KEPT_MS = 86400000  -- model/limits.py:STAGE_KEPT_MS

local function stage_forget(batch)
  redis.call('UNLINK', batch.about, batch.parts, batch.rows, batch.todo)
  redis.call('ZREM', batch.slot .. 'timers', batch.timer)
  redis.call('ZREM', batch.undecided, batch.number_text)
  batch.is_there, batch.chunks, batch.body_bytes = false, 0, 0
end

local function stage_mark(slot, run, now_ms)
  local published = redis.call('HGET', slot .. 'published', run)
  if not published then
    return nil
  end
  local number, until_ms, content = string.match(published, '^(%d+) (%d+) ?(.*)$')
  if until_ms ~= '0' and now_ms >= tonumber(until_ms) then
    return nil
  end
  return {number = tonumber(number), until_ms = tonumber(until_ms), content = content}
end

local function stage_batch(slot, queue, sink, run, number, now_ms)
  local of_sink = #queue .. ':' .. queue .. ':' .. #sink .. ':' .. sink .. ':'
  local names = of_sink .. number .. ':' .. run
  local batch = {
    slot = slot,
    timer = 'stage:' .. names,
    run = of_sink .. run,
    number = tonumber(number),
    number_text = number,
    about = slot .. 'stage:' .. names,
    parts = slot .. 'stage_parts:' .. names,
    rows = slot .. 'stage_rows:' .. names,
    todo = slot .. 'stage_todo:' .. names,
    undecided = slot .. 'stage_undecided:' .. of_sink .. run,
  }
  local kept = redis.call('HMGET', batch.about, 'began_ms', 'is_decided', 'chunks', 'body_bytes',
      'left', 'family', 'content', 'keep_ms')
  tells_timers = true  -- a script that loads a batch may set a timer
  batch.is_there = kept[1] and true
  batch.began_ms = tonumber(kept[1] or 0)
  batch.is_decided = kept[2] == '1'
  batch.chunks, batch.body_bytes = tonumber(kept[3] or 0), tonumber(kept[4] or 0)
  batch.left = tonumber(kept[5] or 0)
  batch.family = kept[6]
  batch.content = kept[7] or ''
  batch.keep_ms = tonumber(kept[8] or 0)
  batch.mark = stage_mark(slot, batch.run, now_ms)
  batch.is_published = batch.mark ~= nil and batch.number <= batch.mark.number
  if batch.is_there and not batch.is_decided and batch.began_ms + STAGE_KEPT_MS <= now_ms then
    stage_forget(batch)
  end
  return batch
end
