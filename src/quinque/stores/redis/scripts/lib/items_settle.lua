-- items_settle(list, most): items whose leases ended are in `queue` again, up to `most` of them, and
-- no more than Redis has time for.
-- SAME AS engine/work/due.py:settle
--
-- include lib/items_lapse.lua
-- include lib/settle_room.lua

local ITEMS_SETTLE_MOST = 200  -- 2 to 4 ms
local ITEMS_COST = 4  -- of an item, compared with other messages

local function items_settle(list, most)
  local ids = redis.call('ZRANGEBYSCORE', list.due, '-inf', string.format('(%d', list.now_ms + 1),
      'LIMIT', 0, math.min(settle_room(most), ITEMS_SETTLE_MOST))
  settle_note(ITEMS_COST * #ids)
  items_lapse(list, ids, {returned = 0, dropped = 0, doubled = 0})
  list.is_changed = true
end
