-- rate_take(list, count): count messages of the worklist that were handed out.
-- SAME AS engine/work/rate.py
local function rate_take(list, count)
  -- Rounded up: the limit is never exceeded.
  local spent_us = math.ceil(count * list.rate_ms * 1000 / list.rate_count)
  list.rate_full_us = math.max(list.rate_full_us, list.now_ms * 1000) + spent_us
end
