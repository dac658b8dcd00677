-- work_put_in(list, terms, ids, bodies, from_us, reason): new messages are in the worklist, ready or
-- delayed, on these terms (as lib/work_terms.lua has them); the place of the first, from_us if that
-- is later than all others of the slot, and the ids, which are made here if they are numbers. Why they
-- came goes on record.
-- SAME AS engine/work/apply.py:apply_added
--
-- work_last(list): what it reads, for a script that writes before: it is kept in list.last.
--
-- include lib/keep_time.lua
-- include lib/many.lua
-- include lib/work_close.lua
-- include lib/work_kept.lua
-- include lib/work_new_ids.lua
-- include lib/work_record.lua
-- include lib/work_wake.lua

local function work_last(list)
  local last = redis.call('HMGET', list.slot .. 'slot', 'at_ms', 'last_place', 'last_id')
  kept_time_ms = tonumber(last[1] or 0)
  work_foresee(list)
  return last
end

local function work_put_in(list, terms, ids, bodies, from_us, reason)
  local slot, name, now_ms, count = list.slot, list.name, list.now_ms, #bodies
  local last = list.last or work_last(list)
  list.last = nil
  local place = math.max(from_us, tonumber(last[2] or 0) + 1)
  local last_place = string.format('%d', place + count - 1)
  if list.is_reliable then
    ids = work_new_ids(last[3] or '0-0', now_ms, count)
    keep_time(slot, now_ms, 'last_place', last_place, 'last_id', ids[count])
  else
    keep_time(slot, now_ms, 'last_place', last_place)
  end

  -- Redis gets text: it takes long to write numbers with many digits.
  local text_of_terms = work_terms_text(terms.ttl_ms, terms.delay_ms, terms.retry_ms,
      terms.max_deliveries, terms.replicas, terms.key, name)
  local kept, long, scored, sizes = {}, {}, {}, {}
  for at, id in ipairs(ids) do
    local text, body = string.format('%d', place + at - 1), bodies[at]
    kept[2 * at - 1], kept[2 * at] = id, work_kept(text, text_of_terms, body)
    scored[2 * at - 1], scored[2 * at] = text, id
    sizes[at] = #body
    if #body > BODY_MOST_BYTES then
      long[#long + 1], long[#long + 2] = id, body
    end
  end
  many('HSET', slot .. 'messages', kept)
  many('HSET', slot .. 'bodies', long)
  many('ZADD', slot .. (terms.delay_ms > 0 and 'delayed:' or 'ready:') .. name, scored)

  local function keep_moment(kind, at_ms)
    local text = string.format('%d', at_ms)
    for at = 1, count do
      scored[2 * at - 1] = text
    end
    many('ZADD', slot .. kind .. ':' .. name, scored)
    work_foresee_end(list, kind, at_ms)
  end

  keep_moment('expires', terms.ttl_ms > 0 and now_ms + terms.ttl_ms or NEVER_MS)
  work_record(list, ADDED, reason, ids, sizes)
  if terms.delay_ms > 0 then
    keep_moment('due', now_ms + terms.delay_ms)
    work_record(list, DELAYED, NONE, ids)
  else
    list.came = list.came + count
    work_wake(list)
  end
  if terms.key then
    redis.call('HSET', slot .. 'keys:' .. name, terms.key, ids[1])
  end
  list.active_ms = now_ms
  list.is_changed = true
  return place, ids
end
