-- stage_find.lua: the batches of a slot that are not wholly published.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  most             stop after more than this many, 0 = never
-- RETURNS  of each: queue, sink, run, number, is_decided, chunks, body_bytes, age_ms, code of the family
-- ERRORS   none
-- SAME AS  stores/embedded/stages.py:_find

-- include lib/answer.lua
-- include lib/stage_batch.lua
-- include lib/stage_names.lua

local slot, now_ms, most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])

local found = {}
for _, timer in ipairs(redis.call('ZRANGE', slot .. 'timers', 0, -1)) do
  local queue, sink, run, number = stage_names(timer)
  local batch = queue and stage_batch(slot, queue, sink, run, number, now_ms)
  if batch and batch.is_there then
    found[#found + 1] = {
      queue,
      sink,
      run,
      batch.number,
      batch.is_decided and 1 or 0,
      batch.chunks,
      batch.body_bytes,
      math.max(0, now_ms - batch.began_ms),
      batch.family or '',
    }
    if most > 0 and #found > most then
      break
    end
  end
end
return answer(found)
