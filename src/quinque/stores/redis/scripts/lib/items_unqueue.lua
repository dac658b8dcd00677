-- items_unqueue(list, id): remove the id from `queue`, unless it is too deep in a long list to be
-- found. If its item is gone, it is passed over when its turn comes.
--
-- include lib/items_is_queued.lua
local function items_unqueue(list, id)
  if redis.call('LLEN', list.queue) <= 2 * ITEMS_SEARCH_MOST then
    redis.call('LREM', list.queue, 0, id)
  elseif redis.call('LPOS', list.queue, id, 'MAXLEN', ITEMS_SEARCH_MOST) then
    redis.call('LREM', list.queue, 1, id)
  elseif redis.call('LPOS', list.queue, id, 'RANK', -1, 'MAXLEN', ITEMS_SEARCH_MOST) then
    redis.call('LREM', list.queue, -1, id)
  end
end
