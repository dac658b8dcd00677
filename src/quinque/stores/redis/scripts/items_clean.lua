-- items_clean.lua: a slice of light cleaning: ids in `processing`, from the oldest leases on.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  skipped          how many ids, from the right, were looked at before
--          7  count            look at this many
--          8  is_patient       1 = an item without a lease is returned only if a later look finds it
--                              without one too: a worker may be about to lease it
-- RETURNS  how many ids are to be skipped next, -1 at the end; how many were looked at; how many
--          returned, dropped, doubled; nothing if there is no such queue
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:CleanItems

-- include lib/items_find.lua
-- include lib/items_lapse.lua
-- include lib/items_answer.lua

local PATIENCE_MS = 1000  -- between two commands of a worker that is well

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, skipped, count = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local is_patient = ARGV[8] == '1'

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return items_answer(false)
end

local counts = {returned = 0, dropped = 0, doubled = 0}
local length = redis.call('LLEN', list.processing)

-- Each id once, from the right; the copies are removed.
local ids, seen = {}, {}
local found = redis.call('LRANGE', list.processing, 0 - skipped - count, -1 - skipped)
for at = #found, 1, -1 do
  local id = found[at]
  if seen[id] then
    counts.doubled = counts.doubled + items_unhold(list, id)
  else
    seen[id] = true
    ids[#ids + 1] = id
  end
end

-- The ids to look at again, and when; and those to return or drop now.
local ends, scored, free = items_lease_ends(list, ids), {}, {}
for at, id in ipairs(ids) do
  local at_ms = ends[at] or is_patient and now_ms + PATIENCE_MS
  if at_ms and redis.call('EXISTS', list.item .. id) == 1 then
    -- After all turns (lib/items_hold.lua) of that millisecond, so that none is lost.
    scored[#scored + 1], scored[#scored + 2] = string.format('%d.9995', at_ms), id
  else
    free[#free + 1] = id
  end
end
local looked = #found - #free + items_lapse(list, free, counts)
for from = 1, #scored, MANY_MOST do
  redis.call('ZADD', list.due, 'LT', unpack(scored, from, math.min(from + MANY_MOST - 1, #scored)))
end
local left = redis.call('LLEN', list.processing)
skipped = math.max(0, skipped + looked - (length - left))
return items_answer({skipped < left and #found > 0 and skipped or -1, looked, counts.returned,
    counts.dropped, counts.doubled})
