-- stage_due.lua: of the batches of a slot, what nobody decided in time is gone, and what is not to be
-- remembered any more is forgotten; or a part of that is done.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  most             so many at most
-- RETURNS  1 if there is more of it, else 0
-- ERRORS   none
-- SAME AS  stores/embedded/staged.py:take_due

-- include lib/answer.lua
-- include lib/keep_time.lua
-- include lib/stage_batch.lua
-- include lib/stage_names.lua

local slot, now_ms, most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])

tells_timers = true
local done = 0
for _, timer in ipairs(redis.call('ZRANGEBYSCORE', slot .. 'timers', '-inf', now_ms,
    'LIMIT', 0, most)) do
  local queue, sink, run, number = stage_names(timer)
  local published = string.match(timer, '^published:(.*)$')
  if queue then
    stage_forget(stage_batch(slot, queue, sink, run, number, now_ms))
  elseif published then
    redis.call('HDEL', slot .. 'published', published)
    redis.call('ZREM', slot .. 'timers', timer)
  end
  done = done + ((queue or published) and 1 or 0)
end
keep_time(slot, now_ms)
return answer(done == most and 1 or 0)
