-- take.lua: hand out ready messages of worklists of a slot.
--
-- KEYS     1  slot       HASH  the worklists' slot
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  room_bytes       no more once the bodies have this size
--          4  jitter_ms        leases run this much longer than was asked for
--          5  settle_most      first settle up to this many of each kind
--          6  makes            1 = a worklist that is not there is made
--          7  turn_us          the worklist's next turn comes after this; 0 = it is not kept
--          8  follows          1 = the broker's clock follows that of Redis
--          9  settles          settle this many before anything is taken, if more is due than a call
--                              settles: the caller wants as many, in their order
--         10.. queue, is_waited, most  of each worklist; at most so many of it
-- RETURNS  a list: queue, id, body, nacks, requeues, lease of each message; how many are still ready
--          in the last worklist; 1 if expired messages were in the way, more than one call removes, or
--          nothing was found and more is due than one call settles
-- ERRORS   WRONGTYPE           a name belongs to another family
-- SAME AS  stores/embedded/work_taking.py, engine/work/decide.py:take

-- include lib/late_ms.lua
-- include lib/settle_room.lua
-- include lib/work_find.lua
-- include lib/work_take.lua
-- include lib/work_make.lua
-- include lib/work_wake.lua
-- include lib/work_answer.lua

local SETTLE_MOST_FLOODED = 32  -- model/limits.py:SETTLE_MOST_FLOODED

local slot = slot_prefix(KEYS[1])
local family, now_ms, room_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local jitter_ms, settle_most = tonumber(ARGV[4]) + late_ms(now_ms, ARGV[8]), ARGV[5]
local makes, turn_us, settles = ARGV[6] == '1', ARGV[7], tonumber(ARGV[9])

-- Before anything is taken: a name of another family refuses them all.
local lists = {}
for at = 10, #ARGV, 3 do
  local list = work_find(slot, ARGV[at], family, now_ms, settle_most, ARGV[at + 1] == '1')
  if list == nil then
    return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  end
  lists[at] = list
end

local given, is_cut = {}, false
for at = 10, #ARGV, 3 do
  local list, name, most = lists[at], ARGV[at], tonumber(ARGV[at + 2])
  if list and most > 0 then
    if work_is_due(list) and redis.call('ZCOUNT', slot .. 'due:' .. name, '-inf', now_ms) > 0 then
      -- More came back than was settled at once: as much as is taken now, in its order.
      work_settle(list, math.max(SETTLE_MOST_FLOODED, most))
      if settles > SETTLED_MOST and settle_is_spent() then
        return work_answer({given, 0, 1})
      end
    end
    local taken, is_list_cut
    taken, room_bytes, is_list_cut = work_take(list, most, room_bytes, jitter_ms, given)
    if is_list_cut then
      is_cut = true
      work_wake(list)
    end
    if taken > 0 and turn_us ~= '0' then
      redis.call('ZADD', slot .. 'busy', turn_us, name)
    end
  elseif not list and makes then
    -- A reader that waits on a worklist makes it, so that other clients see that a reader waits.
    work_make(slot, name, family, now_ms)
  end
end
local ready = redis.call('ZCARD', slot .. 'ready:' .. ARGV[#ARGV - 2])
is_cut = is_cut or #given == 0 and settle_is_spent()
return work_answer({given, ready, is_cut and 1 or 0})
