-- claim_put_back(list, messages): put the messages into the worklist again, each in its state. A
-- message loses its key if another has it by now.
-- SAME AS engine/claims/apply_to_queue.py:apply_returned
--
-- include lib/many.lua
-- include lib/work_enter.lua
-- include lib/work_kept.lua
-- include lib/work_wake.lua

-- The key that the message has from here on.
local function claim_key(list, message)
  local key, keys = message.terms.key, list.slot .. 'keys:' .. list.name
  local holder = key and redis.call('HGET', keys, key)
  if not key or (holder and holder ~= message.id) then
    return false
  elseif message.state == 'dead' then
    redis.call('HDEL', keys, key)
  elseif not holder then
    redis.call('HSET', keys, key, message.id)
  end
  return key
end

local function claim_put_back(list, messages)
  local slot, name = list.slot, list.name
  local kept, bodies, ends, due = {}, {}, {}, {}
  local by_place = {ready = {}, delayed = {}, dead = {}}
  local function note(pairs_of, first, second)
    pairs_of[#pairs_of + 1] = first
    pairs_of[#pairs_of + 1] = second
  end
  for _, message in ipairs(messages) do
    local id, body, terms = message.id, message.body, message.terms
    local text = work_terms_text(terms.ttl_ms, terms.delay_ms, terms.retry_ms, terms.max_deliveries,
        terms.replicas, claim_key(list, message), name)
    note(kept, id, work_kept(message.place, text, body))
    if #body > BODY_MOST_BYTES then
      note(bodies, id, body)
    end
    note(by_place[message.state], message.place, id)
    if message.state ~= 'dead' then
      note(ends, string.format('%d', message.expires_ms > 0 and message.expires_ms or NEVER_MS), id)
    end
    if message.state == 'delayed' then
      note(due, string.format('%d', message.due_ms), id)
    end
    work_keep_progress(message)
  end
  many('HSET', slot .. 'messages', kept)
  many('HSET', slot .. 'bodies', bodies)
  for state, placed in pairs(by_place) do
    many('ZADD', slot .. state .. ':' .. name, placed)
  end
  many('ZADD', slot .. 'expires:' .. name, ends)
  many('ZADD', slot .. 'due:' .. name, due)
  list.came = list.came + #by_place.ready / 2
  list.active_ms = list.now_ms
  list.is_changed = true
  if #by_place.ready > 0 then
    work_wake(list)
  end
end
