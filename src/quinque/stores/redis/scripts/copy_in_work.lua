-- copy_in_work.lua: messages of a worklist, which is there, are in it as they were elsewhere.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  at_ms            the latest time that is known elsewhere
--          2  queue            the worklist
--          3.. id, place, ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, has_key, key, state,
--              expires_ms, due_ms, nacks, requeues, deliveries, is_new, reason, body  of each
-- RETURNS  nothing; or, if ids are the worklist's own, the first of these that a message of another
--          one has in this slot, and then nothing is changed
-- ERRORS   none
-- SAME AS  engine/work/apply.py:apply_work_kept

-- include lib/many.lua
-- include lib/work_enter.lua
-- include lib/work_kept.lua
-- include lib/work_turns.lua
-- include lib/work_wake.lua
-- include lib/work_answer.lua

local slot, at_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local FIELDS = 18  -- of each message
local list = work_open(slot, queue, at_ms)

-- The first id that is taken, if any is.
local function find_taken()
  local ids = {}
  for at = 3, #ARGV, FIELDS do
    ids[#ids + 1] = ARGV[at]
  end
  for at, text in ipairs(many('HMGET', slot .. 'messages', ids)) do
    if text and select(2, work_unkept(text)).queue ~= queue then
      return ids[at]
    end
  end
end

local taken_id = list.is_reliable and find_taken()
if taken_id then
  return work_answer(taken_id)
end

local kept, bodies, last_turn = {}, {}, 0
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
    note(ends, expires_ms ~= '0' and expires_ms or NEVER_MS, id)
    if has_key == '1' then
      redis.call('HSET', slot .. 'keys:' .. queue, message_key, id)
    end
  end
  if state == 'leased' and list.is_reliable then
    local turn = TURNS_FROM + tonumber(due_ms)
    last_turn = math.max(last_turn, turn)
    note(due, string.format('%d', turn), id)
  elseif state == 'leased' or state == 'delayed' then
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
if last_turn > tonumber(redis.call('HGET', KEYS[1], 'last_turn') or 0) then
  redis.call('HSET', KEYS[1], 'last_turn', string.format('%d', last_turn))
end
if #by_place.ready > 0 then
  work_wake(list)
end
list.is_changed = true
return work_answer(false)
