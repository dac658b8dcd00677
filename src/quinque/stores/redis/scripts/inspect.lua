-- inspect.lua: messages of a worklist in their order, or in that of their last delivery.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  is_leased        1 = those that are leased, else those that are ready
--          7  start            from this index on, counted from 0; negative = from the end
--          8  count            up to this many
--          9  room_bytes       and no more once the bodies have this size
-- RETURNS  id, body, when it was last delivered (ms, 0 = it is not leased), deliveries of each;
--          nothing if the worklist is not there
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/views.py:inspect

-- include lib/work_find.lua
-- include lib/work_read.lua
-- include lib/work_turns.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, is_leased = ARGV[5], ARGV[6] == '1'
local start, count, room_bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return work_answer(false)
end

local index = slot .. (is_leased and 'due:' or 'ready:') .. queue
-- Delayed messages have a time in `due`, which is before all turns.
local passed = is_leased and redis.call('ZCARD', slot .. 'delayed:' .. queue) or 0
local size = redis.call('ZCARD', index) - passed
if start < 0 then
  start = start + size
end
local found = {}
if 0 <= start and start < size and count > 0 then
  local first = passed + start
  local ids = redis.call('ZRANGE', index, first, first + count - 1)
  for at, message in ipairs(work_read(slot, ids, now_ms, room_bytes)) do
    local turn_ms = message.turn and math.floor((message.turn - TURNS_FROM) / TURNS_PER_MS) or 0
    found[4 * at - 3], found[4 * at - 2] = message.id, message.body
    found[4 * at - 1], found[4 * at] = math.min(turn_ms, now_ms), message.deliveries
  end
end
return work_answer(found)
