-- items_is_queued(list, id): whether the id is in `queue`, and whether all of it was looked at. In a
-- list that is so long that Redis would stand still, only both ends are looked at: the ids returned
-- last are on the left, and the next ones on the right. Deep cleaning finds the others; until then,
-- no broker leases such an item twice.

local ITEMS_SEARCH_MOST = 20000  -- ids at each end, for one id: 0.5 ms
local ITEMS_SEARCHES_MOST = 4  -- by one script; for more ids, the ends are read once:
local ITEMS_ENDS_MOST = 5000  -- as many ids of each: 1 ms

local function items_read_ends(list)
  local length = redis.call('LLEN', list.queue)
  local ends = length > 2 * ITEMS_ENDS_MOST and {{0, ITEMS_ENDS_MOST - 1}, {0 - ITEMS_ENDS_MOST, -1}}
      or {{0, -1}}
  list.queued, list.is_read_whole = {}, #ends == 1
  for _, span in ipairs(ends) do
    for _, id in ipairs(redis.call('LRANGE', list.queue, span[1], span[2])) do
      list.queued[id] = true
    end
  end
end

local function items_is_queued(list, id)
  list.searches = (list.searches or 0) + 1
  if list.searches > ITEMS_SEARCHES_MOST then
    if not list.queued then
      items_read_ends(list)
    end
    return list.queued[id] or false, list.is_read_whole
  elseif redis.call('LLEN', list.queue) <= 2 * ITEMS_SEARCH_MOST then
    return redis.call('LPOS', list.queue, id) ~= false, true
  end
  return redis.call('LPOS', list.queue, id, 'MAXLEN', ITEMS_SEARCH_MOST) ~= false
      or redis.call('LPOS', list.queue, id, 'RANK', -1, 'MAXLEN', ITEMS_SEARCH_MOST) ~= false, false
end
