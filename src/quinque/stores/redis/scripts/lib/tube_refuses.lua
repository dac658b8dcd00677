-- tube_refuses(tube, what): whether something was said that tubes of its kind have no use for: t =
-- terms of time, l = a lane.
-- SAME AS model/tube_terms.py:refuse_unknown_terms
local function tube_refuses(tube, what)
  return string.find(what, 't') and not tube.has_times
      or string.find(what, 'l') and not tube.has_lanes
end
