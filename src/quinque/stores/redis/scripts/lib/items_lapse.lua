-- items_lapse(list, ids, counts): of these ids, none twice, those whose items have no lease are in
-- `queue`, at the back, and not in `processing`. Where there is a lease, the broker will look again
-- when that ends. Ids without items are taken out of `processing`. What was found is counted:
-- returned, dropped, doubled. Returns how many were looked at: fewer, if it would take too long.
--
-- include lib/items_drop_leases.lua
-- include lib/items_is_queued.lua
-- include lib/items_lease_ends.lua
-- include lib/items_return.lua
-- include lib/items_unhold.lua
local function items_lapse(list, ids, counts)
  local ends, free, back, looked = items_lease_ends(list, ids), {}, {}, 0
  list.searches = math.max(list.searches or 0, #ids > ITEMS_SEARCHES_MOST and #ids or 0)
  for at, id in ipairs(ids) do
    if (list.passed or 0) > ITEMS_WORK_MOST then
      break
    end
    looked = at
    if redis.call('EXISTS', list.item .. id) == 0 then
      free[#free + 1] = id
      counts.dropped = counts.dropped + items_unhold(list, id)
    elseif ends[at] then
      redis.call('ZADD', list.due, string.format('%d', ends[at]), id)
    else
      free[#free + 1] = id
      local held = items_unhold(list, id)
      local is_queued, is_sure = items_is_queued(list, id)
      if is_queued then
        counts.doubled = counts.doubled + held
      elseif held > 0 or is_sure then
        back[#back + 1] = id
      end
    end
  end
  items_drop_leases(list, free)
  items_return(list, back, counts)
  list.is_changed = true
  return looked
end
