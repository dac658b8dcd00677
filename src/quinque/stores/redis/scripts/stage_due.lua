-- stage_due.lua: remove batches of a slot that were not decided in time, and marks of published
-- batches that have expired; or do a part of that. Decided batches that their writers have left are
-- for the broker to go on with; no other broker gets them for some time.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  most             up to this many
-- RETURNS  1 if there is more of it, else 0; of each batch to go on with: queue, sink, run, number,
--          code of the family, keep_ms, how many messages are left to put
-- ERRORS   none
-- SAME AS  stores/embedded/staged.py:take_due

-- include lib/answer.lua
-- include lib/keep_time.lua
-- include lib/stage_batch.lua
-- include lib/stage_keep.lua
-- include lib/stage_names.lua

local slot, now_ms, most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])

tells_timers = true
local done, left = 0, {}
for _, timer in ipairs(redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms,
    'LIMIT', 0, most)) do
  local queue, sink, run, number = stage_names(timer)
  local published = string.match(timer, '^published:(.*)$')
  local batch = queue and stage_batch(slot, queue, sink, run, number, now_ms)
  if batch and batch.is_decided then
    stage_keep(batch, now_ms)
    left[#left + 1] = {queue, sink, run, batch.number, batch.family, batch.keep_ms, batch.left}
  elseif batch then
    stage_forget(batch)
  elseif published then
    redis.call('HDEL', slot .. 'published', published)
    redis.call('ZREM', slot .. 'timers', timer)
  end
  done = done + ((queue or published) and 1 or 0)
end
keep_time(slot, now_ms)
return answer({done == most and 1 or 0, left})
