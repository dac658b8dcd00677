-- items_take.lua: lease the first items of a queue.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  makes            1 = a queue that is not there is made
--          7  most             lease up to this many
--          8  room_bytes       no more once the data have this size
--          9  lease_ms         the leases run for this time
--         10  follows          1 = the broker's clock follows that of Redis
-- RETURNS  a list: id, data of each item; 1 if there may be more; when their leases end, ms
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  engine/work/decide.py:take

-- include lib/items_find.lua
-- include lib/items_hold.lua
-- include lib/items_lease_ends.lua
-- include lib/work_record.lua
-- include lib/items_answer.lua

local TAKE_MOST = 500  -- looked at together
local SEARCH_MOST = 50000  -- ids that were leased last: 1 ms
local LOOK_MOST = 5000  -- ids that have no item, or whose items are leased: some 5 ms

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, makes, most = ARGV[5], ARGV[6] == '1', tonumber(ARGV[7])
local room_bytes, lease_ms, follows = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  if makes then
    -- A request for a queue makes it, so that clients see that it was asked for.
    items_make(slot, queue, family, now_ms)
  end
  return items_answer({{}, 0, 0})
end

-- The id was in `queue` though a worker has the item: the worker keeps it until the lease ends.
local function leave_to_holder(id, end_ms)
  if not redis.call('LPOS', list.processing, id, 'MAXLEN', SEARCH_MOST) then
    redis.call('LPUSH', list.processing, id)
  end
  redis.call('ZADD', list.due, string.format('%d', end_ms), id)
  list.is_changed = true
end

local given, leased, seen = {}, {}, {}

-- Lease those of the ids that can be leased, as long as there is room; return how many are left.
local function lease(ids)
  local keys = {}
  for at, id in ipairs(ids) do
    keys[at] = list.item .. id
  end
  local data, ends = redis.call('MGET', unpack(keys)), items_lease_ends(list, ids)
  for at, id in ipairs(ids) do
    if room_bytes <= 0 then
      return #ids - at + 1
    elseif data[at] and not seen[id] then
      seen[id] = true
      if ends[at] then
        leave_to_holder(id, ends[at])
      else
        room_bytes = room_bytes - #data[at]
        leased[#leased + 1] = id
        given[#given + 1], given[#given + 2] = id, data[at]
      end
    end
  end
  return 0
end

local looked, is_more = 0, true
while #leased < most and room_bytes > 0 and looked < LOOK_MOST + most do
  local count = math.min(most - #leased, TAKE_MOST)
  local ids = redis.call('RPOP', list.queue, count)
  if not ids then
    is_more = false
    break
  end
  looked = looked + #ids
  local left = lease(ids)
  for at = #ids, #ids - left + 1, -1 do
    redis.call('RPUSH', list.queue, ids[at])
  end
end
local deadline_ms = 0
if #leased > 0 then
  many('LPUSH', list.processing, leased)
  deadline_ms = items_hold(list, leased, lease_ms, follows)
  work_record(list, DELIVERED, NONE, leased)
  list.went, list.active_ms = list.went + #leased, now_ms
end
return items_answer({given, is_more and 1 or 0, deadline_ms})
