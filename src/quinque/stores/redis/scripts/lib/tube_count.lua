-- tube_count(tube, what, by): add `by` to the counter `what`, which is stored when the script ends.
-- SAME AS model/tube_ops.py:CALLS
local function tube_count(tube, what, by)
  tube.counts[what] = (tube.counts[what] or 0) + by
  tube.is_changed = true
end
