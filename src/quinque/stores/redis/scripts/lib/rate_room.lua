-- rate_room(list): how many more of the worklist may be handed out now. SAME AS engine/work/rate.py
local function rate_room(list)
  local span_us = list.rate_ms * 1000
  local used_us = math.max(0, list.rate_full_us - list.now_ms * 1000)
  return math.max(0, math.floor((span_us - used_us) * list.rate_count / span_us))
end
