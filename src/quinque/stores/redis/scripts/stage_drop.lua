-- stage_drop.lua: what was staged for a batch is gone, unless it is decided.
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

-- include lib/answer.lua
-- include lib/keep_time.lua
-- include lib/stage_batch.lua

local slot, now_ms = slot_prefix(KEYS[1]), tonumber(ARGV[1])

local batch = stage_batch(slot, ARGV[2], ARGV[3], ARGV[4], ARGV[5], now_ms)
if not batch.is_there or batch.is_decided then
  return answer(0)
end
local chunks = batch.chunks
stage_forget(batch)
keep_time(slot, now_ms)
return answer(chunks)
