-- work_view(list): what is shown of a worklist: ready, delayed, leased, dead, age_ms, idle_ms, came,
-- went, is_paused_in, is_paused_out, max_deliveries, rate_count, rate_ms, keeps_expired.
-- SAME AS engine/work/views.py:queue_view
local function work_view(list)
  local slot, name = list.slot, list.name
  local delayed = redis.call('ZCARD', slot .. 'delayed:' .. name)
  return {
    redis.call('ZCARD', slot .. 'ready:' .. name),
    delayed,
    redis.call('ZCARD', slot .. 'due:' .. name) - delayed,
    redis.call('ZCARD', slot .. 'dead:' .. name),
    math.max(0, list.now_ms - list.since_ms),
    math.max(0, list.now_ms - list.active_ms),
    list.came,
    list.went,
    list.is_paused_in and 1 or 0,
    list.is_paused_out and 1 or 0,
    list.max_deliveries,
    list.rate_count,
    list.rate_ms,
    list.keeps_expired and 1 or 0,
  }
end
