-- trim_record.lua: what is old on the record of a slot is gone, and what there is too much of; a
-- part of it, if that is very much.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  from_ms          what was written before is old
--          2  most_bytes       about this much may stay; 0 = all of it
-- RETURNS  1 if there is more to do
-- ERRORS   none
-- SAME AS  model/look_ops.py:Record

-- include lib/answer.lua
-- include lib/record_extent.lua

local TRIM_MOST = 1000000  -- rows: some 10 ms of work

local slot = slot_prefix(KEYS[1])
local from_ms, most_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local stream = slot .. 'record'
local first, after_last, _, size_bytes = unpack(record_extent(slot))

-- The number of a row, before which all items are old, and none after it.
local function first_young()
  local low, high = first, after_last
  while low < high do
    local middle = math.floor((low + high) / 2)
    local item = redis.call('XRANGE', stream, string.format('%d-0', middle), '+', 'COUNT', 1)[1]
    local number, at_ms = middle, from_ms
    if item then
      number, at_ms = record_start(item[2][2])
    end
    if at_ms < from_ms then
      low = number + 1
    else
      high = middle
    end
  end
  return low
end

local from = first_young()
if 0 < most_bytes and most_bytes < size_bytes then
  local over = (after_last - first) * (1 - most_bytes / size_bytes)
  from = math.max(from, first + math.ceil(over))
end
local is_more = from > first + TRIM_MOST
if from > first then
  redis.call('XTRIM', stream, 'MINID', string.format('%d-0', math.min(from, first + TRIM_MOST)))
end
return answer(is_more and 1 or 0)
