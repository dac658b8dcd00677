-- read_record.lua: what is on record of a slot, from one row on.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  start            the number of that row
--          2  count            about this many rows
--          3  room_bytes       and no more once they have this size
-- RETURNS  the packed entries, from the one on that has the row or is the first after it
-- ERRORS   none
-- SAME AS  model/look_ops.py:ReadRecord

-- include lib/answer.lua
-- include lib/record_first.lua

local READ_MOST = 2000  -- entries: some 5 ms of work

local slot = slot_prefix(KEYS[1])
local count, room_bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local start = math.max(tonumber(ARGV[1]), record_first(slot) or 0)
local stream, entries, lot, is_full = slot .. 'record', {}, 8, false

-- In whichever entry of an item the row is, the item is the last that begins before it or with it.
local from = redis.call('XREVRANGE', stream, string.format('%d-0', start), '-', 'COUNT', 1)[1]
local is_there = from and start <= tonumber(redis.call('HGET', KEYS[1], 'rows'))
from = from and from[1]
while is_there and not is_full do
  local items = redis.call('XRANGE', stream, from, '+', 'COUNT', lot)
  for _, item in ipairs(items) do
    for at = 2, #item[2], 2 do
      local entry = item[2][at]
      local number = record_start(entry)
      if number <= start then
        entries = {entry}
      elseif number < start + count and room_bytes > 0 and #entries < READ_MOST then
        entries[#entries + 1] = entry
      else
        is_full = true
      end
      room_bytes = room_bytes - #entry
    end
    from = '(' .. item[1]
  end
  is_full = is_full or #items < lot
  lot = math.min(4 * lot, 512)
end
return answer(entries)
