-- take.lua: hand out ready messages, one from each worklist in turn, again and again.
--
-- KEYS     1.. slot      HASH  the slot of each worklist
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  count            so many at most
--          4  room_bytes       and no more once the bodies are so large
--          5  jitter_ms        leases run so much longer than was asked for
--          6  settle_most      settle so many of each kind first
--          7  makes            1 = a worklist that is not there is made
--          8  turn_us          the worklist's next turn comes after this; 0 = it is not kept
--          9.. queue, is_waited  of each worklist
-- RETURNS  queue, id, body, nacks, requeues of each message
-- ERRORS   WRONGTYPE           a name belongs to another family
-- SAME AS  stores/embedded/work_taking.py, engine/work/decide.py:take

-- include lib/work_find.lua
-- include lib/work_take.lua
-- include lib/work_make.lua
-- include lib/work_answer.lua

local SETTLE_MOST_COUNTING = 10000  -- model/limits.py:SETTLE_MOST_COUNTING
local SETTLE_MOST_FLOODED = 32  -- model/limits.py:SETTLE_MOST_FLOODED

local family, now_ms, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local room_bytes, jitter_ms, settle_most = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local makes, turn_us = ARGV[7] == '1', ARGV[8]

local left = {}
for at = 9, #ARGV, 2 do
  local slot, name = slot_prefix(KEYS[(at - 7) / 2]), ARGV[at]
  local list = work_find(slot, name, family, now_ms, settle_most, ARGV[at + 1] == '1')
  if list == nil then
      return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  end
  left[#left + 1] = {slot = slot, name = name}
end

local given = {}
local function visit(slot, name, some)
  if find_queue(slot, name, family) then
    local list = work_open(slot, name, now_ms)
    if redis.call('ZCOUNT', slot .. 'due:' .. name, '-inf', now_ms) > 0 then
      -- More came back than was settled at once: as much as is taken now, in its order.
      work_settle(list, math.max(SETTLE_MOST_FLOODED, math.min(some, SETTLE_MOST_COUNTING)))
    end
    return work_take(list, some, room_bytes, jitter_ms, given)
  elseif makes then
    -- Whoever asks for a worklist makes it, so that it can be seen that it was asked for.
    work_make(slot, name, family, now_ms)
  end
  return 0, room_bytes
end

local each = #left == 1 and most or 1
local taken = 0
while #left > 0 and taken < most and room_bytes > 0 do
  local still = {}
  for _, one in ipairs(left) do
    if taken == most or room_bytes <= 0 then
      break
    end
    local count
    count, room_bytes = visit(one.slot, one.name, each)
    if count > 0 then
      taken = taken + count
      still[#still + 1] = one
      if turn_us ~= '0' then
        redis.call('ZADD', one.slot .. 'busy', turn_us, one.name)
      end
    end
  end
  left = #KEYS > 1 and still or {}
end
return work_answer(given)
