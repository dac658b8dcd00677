-- items_browse.lua: the first items of a list of a queue of items, or the last: their ids.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  kind             `queue` or `processing`
--          7  count            up to this many; if it is negative, of the last
-- RETURNS  ids
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  engine/work/views.py:browse

-- include lib/items_find.lua
-- include lib/items_answer.lua

local TOGETHER_MOST = 500  -- looked at together
local LOOK_MOST = 5000  -- ids that have no item: some 5 ms

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, kind, count = ARGV[5], ARGV[6], tonumber(ARGV[7])

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return items_answer({})
end

-- Ids from the index `from` on, counted from the start: the first one is on the right.
local function read(from, some)
  if count < 0 then
    return redis.call('LRANGE', list[kind], from, from + some - 1)
  end
  local ids, turned = redis.call('LRANGE', list[kind], 0 - from - some, -1 - from), {}
  for at = #ids, 1, -1 do
    turned[#turned + 1] = ids[at]
  end
  return turned
end

local found, is_there, looked, most = {}, {}, 0, math.abs(count)
while #found < most and looked < LOOK_MOST + most do
  local some = math.min(most - #found, TOGETHER_MOST)
  local ids = read(looked, some)
  for _, id in ipairs(ids) do
    if not is_there[id] and redis.call('EXISTS', list.item .. id) == 1 then
      found[#found + 1], is_there[id] = id, true
    end
  end
  looked = looked + #ids
  if #ids < some then
    break
  end
end
return items_answer(found)
