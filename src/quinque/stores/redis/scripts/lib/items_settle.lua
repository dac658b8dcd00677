-- items_settle(list, most): items whose leases ended are in `queue` again, up to `most` of them, and
-- no more than Redis has time for.
-- SAME AS engine/work/due.py:settle
--
-- include lib/items_lapse.lua

local ITEMS_SETTLE_MOST = 200  -- 2 to 4 ms

local function items_settle(list, most)
  local ids = redis.call('ZRANGEBYSCORE', list.due, '-inf', string.format('(%d', list.now_ms + 1),
      'LIMIT', 0, math.min(tonumber(most), ITEMS_SETTLE_MOST))
  items_lapse(list, ids, {returned = 0, dropped = 0, doubled = 0})
  list.is_changed = true
end
