-- copy_in_work.lua: messages of a worklist, which is there, are in it as they were elsewhere.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  at_ms            the latest time that is known elsewhere
--          2  queue            the worklist
--          3.. id, place, ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, has_key, key, state,
--              expires_ms, due_ms, nacks, requeues, deliveries, is_new, reason, body  of each
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/work/apply.py:apply_work_kept

-- include lib/many.lua
-- include lib/work_enter.lua
-- include lib/work_kept.lua
-- include lib/work_wake.lua
-- include lib/work_answer.lua

local slot, at_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local FIELDS = 18  -- of each message
local list = work_open(slot, queue, at_ms)

local kept, bodies = {}, {}
local by_place, ends, due = {ready = {}, delayed = {}, dead = {}, leased = {}}, {}, {}

local function note(pairs_of, first, second)
  pairs_of[#pairs_of + 1] = first
  pairs_of[#pairs_of + 1] = second
end

local function take_in(id, place, ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, has_key,
    message_key, state, expires_ms, due_ms, nacks, requeues, deliveries, is_new, reason, body)
  note(kept, id, work_kept(place, work_terms_text(ttl_ms, delay_ms, retry_ms, max_deliveries,
      replicas, has_key == '1' and message_key, queue), body))
  if #body > BODY_MOST_BYTES then
    note(bodies, id, body)
  end
  note(by_place[state], place, id)
  if state ~= 'dead' then
    note(ends, expires_ms, id)
    if has_key == '1' then
      redis.call('HSET', slot .. 'keys:' .. queue, message_key, id)
    end
  end
  if state == 'leased' or state == 'delayed' then
    note(due, due_ms ~= '0' and due_ms or NEVER_MS, id)
  end
  work_keep_progress({
    id = id,
    list = list,
    state = state,
    nacks = tonumber(nacks),
    requeues = tonumber(requeues),
    deliveries = tonumber(deliveries),
    is_new = is_new == '1',
    reason = reason,
    has_progress = false,
  })
end

for at = 3, #ARGV, FIELDS do
  take_in(unpack(ARGV, at, at + FIELDS - 1))
end
many('HSET', slot .. 'messages', kept)
many('HSET', slot .. 'bodies', bodies)
for _, state in ipairs({'ready', 'delayed', 'dead'}) do
  many('ZADD', slot .. state .. ':' .. queue, by_place[state])
end
many('ZADD', slot .. 'expires:' .. queue, ends)
many('ZADD', slot .. 'due:' .. queue, due)
if #by_place.ready > 0 then
  work_wake(list)
end
list.is_changed = true
return work_answer(false)
