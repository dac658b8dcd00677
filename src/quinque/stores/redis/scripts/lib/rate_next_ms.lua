-- rate_next_ms(list): when the next message of the worklist may be handed out.
-- SAME AS engine/work/rate.py
local function rate_next_ms(list)
  local one_us = math.ceil(list.rate_ms * 1000 / list.rate_count)
  return math.ceil((list.rate_full_us + one_us - list.rate_ms * 1000) / 1000)
end
