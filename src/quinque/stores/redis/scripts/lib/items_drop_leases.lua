-- items_drop_leases(list, ids): no lease of these items is left, nor does a broker wait for its end.
--
-- include lib/many.lua
local function items_drop_leases(list, ids)
  local keys = {}
  for at, id in ipairs(ids) do
    keys[2 * at - 1], keys[2 * at] = list.lease .. id, list.old_lease .. id
  end
  for from = 1, #keys, MANY_MOST do
    redis.call('DEL', unpack(keys, from, math.min(from + MANY_MOST - 1, #keys)))
  end
  many('ZREM', list.due, ids)
end
