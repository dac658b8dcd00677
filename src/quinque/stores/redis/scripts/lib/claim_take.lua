-- claim_take(list, claim, most, until_place): a chunk of up to `most` ready messages of the worklist,
-- none of a later place (0 = any), which have left it; and whether there may be more. Keys that they
-- live under stay taken. SAME AS engine/claims/decide.py:rows_to_claim
--
-- include lib/claim_chunk.lua
-- include lib/is_there.lua
-- include lib/work_settle.lua
-- include lib/work_take.lua

local CLAIM_WAS_READY = 1

local CLAIM_LOOKS_MOST, CLAIM_LOOK_MOST = 4, 500  -- at messages of which all had expired

-- The first ready messages that live, and whether it gave up among expired ones.
local function claim_ready(list, most, until_place)
  local ready = list.slot .. 'ready:' .. list.name
  local to = until_place > 0 and string.format('%d', until_place) or '+inf'
  for _ = 1, CLAIM_LOOKS_MOST do
    local count = work_is_due(list) and math.max(most, CLAIM_LOOK_MOST) or most
    local ids = redis.call('ZRANGEBYSCORE', ready, '-inf', to, 'LIMIT', 0, count)
    local living = work_is_due(list) and work_living(list, ids) or ids
    for at = #living, most + 1, -1 do
      living[at] = nil
    end
    if #living > 0 or #ids == 0 then
      return living, false
    end
  end
  return {}, true
end

-- How often it was delivered, this time included, and the last fields of its row.
local function claim_progress(terms, kept)
  if not terms.tail or kept then
    local listed = {terms.ttl_ms, terms.delay_ms, terms.retry_ms, terms.max_deliveries,
      terms.replicas}
    if kept then
      local message = {}
      work_read_progress(message, kept)
      return message.deliveries + 1, claim_tail(0, 0, message.nacks, message.requeues,
          message.reason, terms.key, listed, CLAIM_WAS_READY)
    end
    terms.tail = claim_tail(0, 0, 0, 0, '', terms.key, listed, CLAIM_WAS_READY)
  end
  return 1, terms.tail
end

local function claim_leave(list, ids)
  local slot = list.slot
  local has_bodies, has_progress = is_there(slot .. 'bodies'), is_there(slot .. 'progress')
  redis.call('ZREMRANGEBYRANK', slot .. 'ready:' .. list.name, 0, #ids - 1)  -- the first ones there
  many('ZREM', slot .. 'expires:' .. list.name, ids)
  many('HDEL', slot .. 'messages', ids)
  if has_bodies then
    many('HDEL', slot .. 'bodies', ids)
  end
  if has_progress then
    many('HDEL', slot .. 'progress', ids)
  end
  redis.call('HINCRBY', slot .. 'worklist:' .. list.name, 'claimed', #ids)
  list.went = list.went + #ids
  list.active_ms = list.now_ms
  list.is_changed = true
  if list.rate_count > 0 then
    rate_take(list, #ids)
  end
end

local function claim_take(list, claim, most, until_place)
  local slot, chunk, keyed = list.slot, claim_chunk(), {}
  if redis.call('ZCOUNT', slot .. 'due:' .. list.name, '-inf', list.now_ms) > 0 then
    work_settle(list, most)  -- more came back than was settled at once
  end
  local room = work_takeable(list, most)
  local ids, is_cut = {}, false
  if room > 0 then
    ids, is_cut = claim_ready(list, room, until_place)
  end
  local kept
  kept, ids = work_texts(list, ids)
  local expires = many('ZMSCORE', slot .. 'expires:' .. list.name, ids)
  local progress = is_there(slot .. 'progress') and many('HMGET', slot .. 'progress', ids) or {}
  for at, id in ipairs(ids) do
    local place, terms, body = work_unkept(kept[at])
    body = body or redis.call('HGET', slot .. 'bodies', id)
    local attempt, tail = claim_progress(terms, progress[at])
    local expires_ms = tonumber(expires[at])
    if not claim_row(chunk, id, body, attempt, tonumber(place),
        expires_ms < NEVER_FROM_MS and expires_ms or 0, tail) then
      break
    end
    if terms.key then
      keyed[#keyed + 1], keyed[#keyed + 2] = terms.key, id
    end
  end
  if #chunk.ids > 0 then
    claim_leave(list, chunk.ids)
    many('HSET', claim.keys, keyed)
  end
  return chunk, is_cut or #chunk.ids == most or #chunk.ids < #ids
end
