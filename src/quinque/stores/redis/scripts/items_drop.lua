-- items_drop.lua: remove ids that should not be in `queue`. If an id is there twice, the one on the
-- right stays, which has waited longest.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6.. id, at, right   its place, from the left, when it was seen; and that of a copy on
--                              the right of it, or why it should not be there: -1 = there is no such
--                              item, -2 = it is in `processing` too, and leased
-- RETURNS  how many were dropped because there is no such item, and how many were there twice
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:CleanItems

-- include lib/items_find.lua
-- include lib/items_lease_ends.lua
-- include lib/items_answer.lua

-- Since it was seen, others may have taken some that were left of it, and added some more.
local BEFORE, AFTER = 50, 450
local NEAR_MOST = 30000  -- from the left: LREM passes as many in 1 ms

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most = ARGV[5]

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return items_answer({0, 0})
end

-- The places of the id about there, the first and the last.
local function places(id, at)
  local from, first, last = math.max(0, at - BEFORE), nil, nil
  for offset, other in ipairs(redis.call('LRANGE', list.queue, from, at + AFTER)) do
    if other == id then
      first, last = first or from + offset - 1, from + offset - 1
    end
  end
  return first, last
end

local function drop(id, at)
  if at <= NEAR_MOST then
    redis.call('LREM', list.queue, 1, id)
  else
    -- Redis would stand still for long: the newest one gets its place.
    redis.call('LSET', list.queue, at - 1, redis.call('LPOP', list.queue))
  end
end

local gone, doubled = 0, 0
for number = 6, #ARGV, 3 do
  local id, right = ARGV[number], tonumber(ARGV[number + 2])
  local at = places(id, tonumber(ARGV[number + 1]))
  local is_there = at and redis.call('EXISTS', list.item .. id) == 1
  if at and right == -1 and not is_there then
    drop(id, at)
    gone = gone + 1
  elseif is_there and right == -2 and items_lease_ends(list, {id})[1]
      and redis.call('LPOS', list.processing, id) then
    drop(id, at)
    doubled = doubled + 1
  elseif is_there and right >= 0 then
    local _, last = places(id, right)
    if last and at < last then
      drop(id, at)
      doubled = doubled + 1
    end
  end
end
return items_answer({gone, doubled})
