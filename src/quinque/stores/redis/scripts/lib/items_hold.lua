-- items_hold(list, ids, lease_ms, follows): lease the items, which are in `processing`, for lease_ms
-- from now; returns when that ends, ms. If the broker's clock does not follow that of Redis ('0'),
-- Redis keeps the leases for longer: the broker's clock says when they end.
--
-- include lib/items_lease_ends.lua
-- include lib/late_ms.lua
-- include lib/many.lua

local ITEMS_SPARE_MS = 600000
-- Leases that were given together end in that order, about: each a little later. A score has 10
-- bits after the milliseconds.
local ITEMS_TURNS = 1024

local function items_hold(list, ids, lease_ms, follows)
  local end_ms = list.now_ms + late_ms(list.now_ms, follows) + lease_ms
  local stamp = items_stamp(end_ms)
  local kept_ms = string.format('%d', follows == '0' and lease_ms + ITEMS_SPARE_MS or lease_ms)
  local scored = {}
  for at, id in ipairs(ids) do
    redis.call('SET', list.lease .. id, stamp, 'PX', kept_ms)
    redis.call('SET', list.old_lease .. id, stamp, 'PX', kept_ms)
    local turn = math.floor((at - 1) * ITEMS_TURNS / #ids)
    scored[2 * at - 1] = string.format('%.17g', end_ms + turn / ITEMS_TURNS)
    scored[2 * at] = id
  end
  many('ZADD', list.due, scored)
  list.is_changed = true
  return end_ms
end
