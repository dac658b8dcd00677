-- work_end(slot, name, family, now_ms): remove the worklist, with all that was in it; if some of its
-- messages are claimed, it stays, and is empty. If there are very many messages, only the first are
-- removed at once. The ids of the others are left for sweep.lua alone, with a timer. Returns whether
-- the worklist stays.
-- SAME AS stores/embedded/books.py:end
--
-- include lib/answer.lua
-- include lib/keep_time.lua
-- include lib/work_reset.lua
-- include lib/work_sweep.lua

local END_MOST = 1000  -- messages, of all worklists that the script removes: some 2 ms
local end_count = 0

local function work_end(slot, name, family, now_ms)
  for _, kind in ipairs({'expires', 'dead'}) do
    local index = slot .. kind .. ':' .. name
    local count = redis.call('ZCARD', index)
    if count > 0 and work_sweep(slot, index, name, family, now_ms, END_MOST - end_count) then
      local number = redis.call('HINCRBY', slot .. 'slot', 'last_gone', 1)
      local timer = string.format('gone:%d:%s:', number, family) .. name
      redis.call('RENAME', index, slot .. timer)
      redis.call('ZADD', slot .. 'timers', string.format('%d', now_ms), timer)
      tells_timers = true
    end
    end_count = math.min(END_MOST, end_count + count)
  end
  keep_time(slot, now_ms)
  return work_reset(slot, name, family, now_ms)
end
