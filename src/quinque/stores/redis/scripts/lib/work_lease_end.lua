-- work_lease_end(retry_ms, now_ms, jitter_ms): when a lease that begins now ends; 0 = never.
-- SAME AS engine/work/decide.py:lease_end
local function work_lease_end(retry_ms, now_ms, jitter_ms)
  return retry_ms > 0 and now_ms + retry_ms + jitter_ms or 0
end
