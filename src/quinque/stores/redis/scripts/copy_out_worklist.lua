-- copy_out_worklist.lua: what was counted, and is set for a worklist, for a copy.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  queue            the worklist, which is there
-- RETURNS  since_ms, active_ms, came, went, is_paused_in, is_paused_out, max_deliveries, rate_count,
--          rate_ms, rate_full_us, ends_ms, keeps_expired
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:worklist_kept

-- include lib/answer.lua
-- include lib/work_open.lua

local list = work_open(slot_prefix(KEYS[1]), ARGV[1], 0)

return answer({
  list.since_ms,
  list.active_ms,
  list.came,
  list.went,
  list.is_paused_in and 1 or 0,
  list.is_paused_out and 1 or 0,
  list.max_deliveries,
  list.rate_count,
  list.rate_ms,
  list.rate_full_us,
  list.ends_ms,
  list.keeps_expired and 1 or 0,
})
