-- items_complete.lua: items are done, and gone. As many as Redis has time for.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  is_leased        1 = only those that are leased
--          7.. id              of each item, none twice
-- RETURNS  for each of the first ids, one at least, 1 if the item was there, else 0; nothing if
--          there is no such queue
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:Complete

-- include lib/argv_rest.lua
-- include lib/items_drop_leases.lua
-- include lib/items_find.lua
-- include rarely lib/items_lease_ends.lua
-- include lib/items_unhold.lua
-- include rarely lib/items_unqueue.lua
-- include lib/work_record.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, is_leased, ids = ARGV[5], ARGV[6] == '1', argv_rest(7)

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
if not list then
  -- An item that is in no list is there all the same.
  for _, id in ipairs(ids) do
    if not list and redis.call('EXISTS', queue .. ':item:' .. id) == 1 then
      list = items_make(slot, queue, family, now_ms)
    end
  end
  if not list then
    return items_answer(false)
  end
end

local ends = is_leased and items_lease_ends(list, ids)
local done, gone, looked = {}, {}, {}
for at, id in ipairs(ids) do
  if (list.passed or 0) > ITEMS_WORK_MOST then
    break
  end
  done[at] = 0
  if not ends or ends[at] then
    -- The client that removes the data has completed the item: a broker, or a worker by itself.
    done[at] = redis.call('DEL', list.item .. id)
    looked[#looked + 1] = id
    -- Cleaners of older clients put back what is here, though the item be gone.
    redis.call('LREM', queue .. ':cleaning', 0, id)
    if items_unhold(list, id) == 0 then
      items_unqueue(list, id)
      list.passed = (list.passed or 0) + redis.call('LLEN', list.queue)
    end
    if done[at] == 1 then
      gone[#gone + 1] = id
    end
  end
end
items_drop_leases(list, looked)
if #gone > 0 then
  work_record(list, ACKED, NONE, gone)
  list.active_ms = now_ms
end
list.is_changed = true
return items_answer(done)
