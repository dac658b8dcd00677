-- copy_out_work.lua: messages of a worklist, for a copy: the dead, then the others in the order
-- their lives end.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  queue            the worklist, which is there
--          2  from             skip this many
--          3  count            up to this many
--          4  room_bytes       and no more once the bodies have this size
-- RETURNS  id, place, ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, key (nothing = no key),
--          state, expires_ms, due_ms (where the order of deliveries is kept, of a leased one its
--          turn), nacks, requeues, deliveries, is_new, reason, body of each
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:kept_in_worklist

-- include lib/answer.lua
-- include lib/work_body.lua
-- include lib/work_load.lua
-- include lib/work_turns.lua

local slot, queue = slot_prefix(KEYS[1]), ARGV[1]
local from, count, room_bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local dead, expires = slot .. 'dead:' .. queue, slot .. 'expires:' .. queue

local ids = redis.call('ZRANGE', dead, from, from + count - 1)
local skipped = math.max(0, from - redis.call('ZCARD', dead))
if #ids < count then
  for _, id in ipairs(redis.call('ZRANGE', expires, skipped, skipped + count - #ids - 1)) do
    ids[#ids + 1] = id
  end
end

local rows = {}
for _, message in ipairs(work_load(slot, ids, 0)) do
  if room_bytes <= 0 then
    break
  end
  local terms, body = message.terms, work_body(slot, message)
  local turn = message.list.is_reliable and message.turn
  room_bytes = room_bytes - #body
  rows[#rows + 1] = {
    message.id,
    message.place,
    terms.ttl_ms,
    terms.delay_ms,
    terms.retry_ms,
    terms.max_deliveries,
    terms.replicas,
    terms.key,
    message.state,
    message.expires_ms,
    turn and turn - TURNS_FROM or message.due_ms,
    message.nacks,
    message.requeues,
    message.deliveries,
    message.is_new and 1 or 0,
    message.reason,
    body,
  }
end
return answer(rows)
