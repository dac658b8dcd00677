-- recover.lua: leased messages of a worklist are delivered again, those first that have been
-- delivered longest ago.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  count            up to this many
--          7  elapsed_ms       only those whose last delivery is at least this long ago
--          8  room_bytes       no more once the bodies have this size
-- RETURNS  id, body, nacks, requeues of each; nothing if the worklist is not there
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/decide.py:recover

-- include lib/many.lua
-- include lib/work_enter.lua
-- include lib/work_find.lua
-- include lib/work_read.lua
-- include lib/work_record.lua
-- include lib/work_turns.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, count, elapsed_ms = ARGV[5], ARGV[6], tonumber(ARGV[7])
local room_bytes = tonumber(ARGV[8])

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return work_answer(false)
end

-- A turn may lie a little ahead of the clock; who asks for all of them gets those, too.
local before = elapsed_ms <= 0 and '+inf'
    or string.format('(%.0f', TURNS_FROM + (now_ms - elapsed_ms + 1) * TURNS_PER_MS)
local due = slot .. 'due:' .. queue
local given, scored, ids, progress = {}, {}, {}, {}
local messages = work_read(slot, redis.call('ZRANGEBYSCORE', due,
    string.format('%.0f', NEVER_FROM_MS), before, 'LIMIT', 0, count), now_ms, room_bytes)
if #messages == 0 then
  return work_answer(given)
end
local turn = work_turns(list, #messages)
for at, message in ipairs(messages) do
  message.deliveries = message.deliveries + 1
  progress[2 * at - 1], progress[2 * at] = message.id, work_progress_text(message)
  scored[2 * at - 1], scored[2 * at] = string.format('%d', turn + at - 1), message.id
  ids[at] = message.id
  given[4 * at - 3], given[4 * at - 2] = message.id, message.body
  given[4 * at - 1], given[4 * at] = message.nacks, message.requeues
end
many('HSET', slot .. 'progress', progress)
many('ZADD', due, scored)
list.went = list.went + #ids
list.active_ms = now_ms
list.is_changed = true
work_record(list, DELIVERED, RECOVERED, ids)
return work_answer(given)
