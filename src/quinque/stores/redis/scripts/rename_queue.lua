-- rename_queue.lua: a worklist has another name, and what had that name is gone. Both may lie in one
-- slot, or in two of one server.
--
-- KEYS     1  slot       HASH  the slot of the new name
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  old_slot         the key of its slot
--          5  settle_most      first settle up to this many of each kind
--          6  new_name         what it is to be called
--          7  only_free        1 = nothing happens if there is such a worklist
--          8  most             nothing happens if it has more messages
-- RETURNS  a word: renamed; or why it was not: missing, taken, claimed, held (messages of that name
--          are claimed), beside (so are some of a worklist of the new slot), large, mixed (a message
--          of the new slot has the id of one of these)
-- ERRORS   WRONGTYPE           a name belongs to another family
-- SAME AS  model/queue_ops.py:RenameQueue

-- include lib/claim_names.lua
-- include lib/many.lua
-- include lib/slot_begin.lua
-- include lib/work_end.lua
-- include lib/work_find.lua
-- include lib/work_kept.lua
-- include lib/work_record.lua
-- include lib/work_texts.lua
-- include lib/work_wake.lua
-- include lib/work_answer.lua

local to, from = slot_prefix(KEYS[1]), slot_prefix(ARGV[4])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[5]
local new_name, only_free, most = ARGV[6], ARGV[7] == '1', tonumber(ARGV[8])

local list = work_find(from, queue, family, now_ms, settle_most, false)
if list == false then
  return work_answer('missing')
end
local other = list and work_find(to, new_name, family, now_ms, settle_most, false)
if list == nil or other == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif other and only_free then
  return work_answer('taken')
elseif list == other then
  return work_answer('renamed')
elseif tonumber(redis.call('HGET', from .. 'worklist:' .. queue, 'claimed') or 0) > 0 then
  return work_answer('claimed')
end

-- Whether messages of the new slot are claimed, of a worklist whose ids are made alike.
local function is_claimed_there()
  for _, timer in ipairs(redis.call('ZRANGE', to .. 'timers', 0, -1)) do
    local name = claim_names(timer)
    local found = name and redis.call('HMGET', to .. 'worklist:' .. name, 'family', 'claimed')
    if found and found[1] == family and tonumber(found[2] or 0) > 0 then
      return true
    end
  end
  return false
end

-- A claimed message may have the id of one of these, and would take its place when it goes back.
if from ~= to and tonumber(redis.call('HGET', to .. 'worklist:' .. new_name, 'claimed') or 0) > 0 then
  return work_answer('held')
elseif from ~= to and is_claimed_there() then
  return work_answer('beside')
end
if redis.call('ZCARD', from .. 'expires:' .. queue) + redis.call('ZCARD', from .. 'dead:' .. queue)
    > most then
  return work_answer('large')
end

local ids, kept = {}, {}
for _, kind in ipairs({'ready', 'due', 'dead'}) do
  for _, id in ipairs(redis.call('ZRANGE', from .. kind .. ':' .. queue, 0, -1)) do
    ids[#ids + 1] = id
  end
end
local texts
texts, ids = work_texts(list, ids)
if from ~= to then
  for at, text in ipairs(many('HMGET', to .. 'messages', ids)) do
    local name = text and select(2, work_unkept(text)).queue
    if name and name ~= new_name and (redis.call('ZSCORE', to .. 'expires:' .. name, ids[at])
        or redis.call('ZSCORE', to .. 'dead:' .. name, ids[at])) then
      return work_answer('mixed')
    end
  end
end

-- What is kept of the messages names their worklist; sizes of their bodies, for the record.
local function rewrite()
  local sizes, bodies = {}, {}
  for at, id in ipairs(ids) do
    local place, terms, body = work_unkept(texts[at])
    body = body or redis.call('HGET', from .. 'bodies', id)
    -- Most have the same terms, which are one table then.
    terms.text = terms.text or work_terms_text(terms.ttl_ms, terms.delay_ms, terms.retry_ms,
        terms.max_deliveries, terms.replicas, terms.key, new_name)
    kept[2 * at - 1], kept[2 * at] = id, work_kept(place, terms.text, body)
    sizes[at] = #body
    if #body > BODY_MOST_BYTES and from ~= to then
      bodies[#bodies + 1], bodies[#bodies + 2] = id, body
    end
  end
  many('HSET', to .. 'messages', kept)
  many('HSET', to .. 'bodies', bodies)
  return sizes
end

-- Messages of worklists that are gone may have these ids, and be removed only later, by sweep.lua:
-- ids are made slot by slot. They are removed now, and not once more when they are those of others.
local function take_ids()
  for _, kind in ipairs({'messages', 'bodies', 'progress'}) do
    many('HDEL', to .. kind, ids)
  end
  for _, timer in ipairs(redis.call('ZRANGE', to .. 'timers', 0, -1)) do
    if string.sub(timer, 1, 5) == 'gone:' then
      many('ZREM', to .. timer, ids)
    end
  end
end

-- Move what is outside the worklist's own keys to the other slot. Counters of that slot are raised
-- to those of this one.
local function move_to_slot()
  local moved = {}
  for at, text in ipairs(many('HMGET', from .. 'progress', ids)) do
    if text then
      moved[#moved + 1], moved[#moved + 2] = ids[at], text
    end
  end
  many('HSET', to .. 'progress', moved)
  for _, kind in ipairs({'messages', 'bodies', 'progress'}) do
    many('HDEL', from .. kind, ids)
  end
  for _, field in ipairs({'last_place', 'last_turn'}) do
    local here = redis.call('HGET', from .. 'slot', field) or '0'
    if tonumber(here) > tonumber(redis.call('HGET', to .. 'slot', field) or 0) then
      redis.call('HSET', to .. 'slot', field, here)
    end
  end
  local ms, number = string.match(redis.call('HGET', from .. 'slot', 'last_id') or '0-0', '(%d+)-(%d+)')
  local last_ms, last = string.match(redis.call('HGET', to .. 'slot', 'last_id') or '0-0', '(%d+)-(%d+)')
  ms, number, last_ms, last = tonumber(ms), tonumber(number), tonumber(last_ms), tonumber(last)
  if ms > last_ms or (ms == last_ms and number > last) then
    redis.call('HSET', to .. 'slot', 'last_id', string.format('%d-%d', ms, number))
  end
end

-- The worklist's own keys have the new name, and so has it in all that the slot keeps.
local function move_keys()
  for _, kind in ipairs({'worklist', 'ready', 'delayed', 'dead', 'due', 'expires', 'keys'}) do
    if redis.call('EXISTS', from .. kind .. ':' .. queue) == 1 then
      redis.call('RENAME', from .. kind .. ':' .. queue, to .. kind .. ':' .. new_name)
    end
  end
  work_forget(from, queue)
  opened[from .. queue] = nil
  slot_begin(to)
  redis.call('HSET', to .. 'queues', new_name, family)
  redis.call('ZADD', to .. 'worklists', redis.call('HINCRBY', to .. 'slot', 'last_number', 1), new_name)
end

-- Record the messages of a state under the new name; `index` is the key that has them.
local function note_state(renamed, kind, index, is_by_place)
  local some = redis.call('ZRANGEBYSCORE', to .. index .. ':' .. new_name,
      is_by_place and '-inf' or string.format('%.0f', NEVER_FROM_MS), '+inf')
  if #some > 0 then
    work_record(renamed, kind, RENAMED, some)
  end
end

if #ids > 0 then
  work_record(list, REMOVED, RENAMED, ids)
end
if from ~= to then
  record_close()  -- in the slot where they were
  recorded = {}
end
local claimed = false
if other then
  -- Claims hold a name: those of what had it before are of this one then.
  claimed = work_end(to, new_name, family, now_ms)
      and redis.call('HGET', to .. 'worklist:' .. new_name, 'claimed')
  opened[to .. new_name] = nil
end
if from ~= to then
  take_ids()
end
local sizes = rewrite()
if from ~= to then
  move_to_slot()
end
move_keys()
if claimed then
  redis.call('HSET', to .. 'worklist:' .. new_name, 'claimed', claimed)
end
local renamed = work_open(to, new_name, now_ms)
if #ids > 0 then
  work_record(renamed, ADDED, RENAMED, ids, sizes)
  note_state(renamed, DELAYED, 'delayed', true)
  note_state(renamed, DELIVERED, 'due', false)
  note_state(renamed, DEAD, 'dead', true)
end
renamed.active_ms, renamed.is_changed = now_ms, true
if redis.call('EXISTS', to .. 'ready:' .. new_name) == 1 then
  work_wake(renamed)
end
return work_answer('renamed')
