-- items_unhold(list, id): the id is once less in `processing`; 1 if it was there, else 0. list.passed
-- counts how many others were passed on the way.
local ITEMS_WORK_MOST = 100000  -- ids passed in lists by one script: 2 to 4 ms
local ITEMS_NEAR_MOST = 2000

local function items_unhold(list, id)
  local length = redis.call('LLEN', list.processing)
  if length <= ITEMS_NEAR_MOST then
    return redis.call('LREM', list.processing, -1, id)
  end
  local passed = list.passed or 0
  -- On the right are those that were leased first, and on the left those that were leased last.
  local at = redis.call('LPOS', list.processing, id, 'RANK', -1, 'MAXLEN', ITEMS_NEAR_MOST)
  if not at then
    at = redis.call('LPOS', list.processing, id, 'MAXLEN', ITEMS_NEAR_MOST)
    passed = passed + ITEMS_NEAR_MOST
    if at then
      list.passed = passed + 2 * at
      return redis.call('LREM', list.processing, 1, id)
    end
    at = redis.call('LPOS', list.processing, id, 'RANK', -1)
  end
  list.passed = passed + (at and 2 * (length - at) or length)
  return at and redis.call('LREM', list.processing, -1, id) or 0
end
