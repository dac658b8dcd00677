-- stage_drop.lua: what was staged for a batch is gone, unless it is decided. If another family
-- has the name of its queue, the rest of a decided batch is gone, and the batch counts as published.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  sink             whose batch it is
--          4  run              of the sink
--          5  number           of the batch in the run
-- RETURNS  how many chunks
-- ERRORS   none
-- SAME AS  stores/embedded/stages.py:_drop

-- include lib/find_queue.lua
-- include lib/keep_time.lua
-- include lib/stage_batch.lua
-- include lib/stage_end.lua
-- include lib/work_answer.lua

local slot, now_ms = slot_prefix(KEYS[1]), tonumber(ARGV[1])

local batch = stage_batch(slot, ARGV[2], ARGV[3], ARGV[4], ARGV[5], now_ms)
local chunks = batch.is_there and batch.chunks or 0
if not batch.is_there then
  return work_answer(0)
elseif not batch.is_decided then
  stage_forget(batch)
  keep_time(slot, now_ms)
elseif find_queue(slot, ARGV[2], batch.family, now_ms) == nil then
  stage_end(batch, batch.keep_ms > 0 and now_ms + batch.keep_ms or 0, now_ms)
else
  return work_answer(0)
end
return work_answer(chunks)
