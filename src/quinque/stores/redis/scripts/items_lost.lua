-- items_lost.lua: items that are in no list and have no lease are in `queue` again.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  has_landmark     1 = `queue` was read, and the ids were not in it; else it is looked
--                              through, unless it is too long
--          7  landmark         the id that was the first on the left then
--          8.. id              of each item
-- RETURNS  how many ids were looked at, 0 = none could be: `queue` is too long, or too much has come
--          since it was read; how many items are in it again
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:CleanItems

-- include lib/argv_rest.lua
-- include lib/items_find.lua
-- include lib/items_is_queued.lua
-- include lib/items_lease_ends.lua
-- include lib/items_return.lua
-- include lib/items_unhold.lua
-- include lib/items_answer.lua

local NEW_MOST = 2000  -- ids that came since it was read

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, has_landmark, landmark = ARGV[5], ARGV[6] == '1', ARGV[7]

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  list = items_make(slot, queue, family, now_ms)
end

local length, new = redis.call('LLEN', list.queue), nil
if length > 2 * ITEMS_SEARCH_MOST then
  local at = has_landmark and redis.call('LPOS', list.queue, landmark, 'MAXLEN', NEW_MOST + 1)
  if not at then
    return items_answer({0, 0})
  end
  new = {}
  for _, id in ipairs(at > 0 and redis.call('LRANGE', list.queue, 0, at - 1) or {}) do
    new[id] = true
  end
end

local function is_in_a_list(id)
  if new then
    return new[id] or redis.call('LPOS', list.processing, id)
  end
  return redis.call('LPOS', list.queue, id) or redis.call('LPOS', list.processing, id)
end

local counts = {returned = 0, dropped = 0, doubled = 0}
local looked, passed = 0, 0
local costs = redis.call('LLEN', list.processing) + (new and 0 or length)
local ids, back = argv_rest(8), {}
local ends = items_lease_ends(list, ids)
for at, id in ipairs(ids) do
  if passed > ITEMS_WORK_MOST then
    break
  end
  looked = looked + 1
  if redis.call('EXISTS', list.item .. id) == 1 and not ends[at] then
    passed = passed + costs
    if not is_in_a_list(id) then
      back[#back + 1] = id
    end
  end
end
items_return(list, back, counts)
return items_answer({looked, counts.returned})
