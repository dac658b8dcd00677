-- work_end(slot, name, family, now_ms): the worklist is gone, with all that was in it; but one of which
-- messages are claimed is there, and empty. Of very many messages the first go at once, and of the
-- others only the ids are left, which nobody finds but sweep.lua: there is a timer for it. Returns
-- whether it is there.
-- SAME AS stores/embedded/books.py:end
--
-- include lib/answer.lua
-- include lib/keep_time.lua
-- include lib/work_reset.lua
-- include lib/work_sweep.lua

local END_MOST = 1000  -- messages: some 2 ms

local function work_end(slot, name, family, now_ms)
  for _, kind in ipairs({'expires', 'dead'}) do
    local index = slot .. kind .. ':' .. name
    if work_sweep(slot, index, name, family, now_ms, END_MOST) then
      local number = redis.call('HINCRBY', slot .. 'slot', 'last_gone', 1)
      local timer = string.format('gone:%d:%s:', number, family) .. name
      redis.call('RENAME', index, slot .. timer)
      redis.call('ZADD', slot .. 'timers', string.format('%d', now_ms), timer)
      tells_timers = true
    end
  end
  keep_time(slot, now_ms)
  return work_reset(slot, name, family, now_ms)
end
