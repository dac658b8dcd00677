-- claim_take(list, claim, most, until_place): a chunk of up to `most` ready messages of the worklist,
-- none of a later place (0 = any), which have left it; and whether there may be more. Keys that they
-- live under stay taken. SAME AS engine/claims/decide.py:rows_to_claim
--
-- include lib/claim_chunk.lua
-- include lib/work_settle.lua
-- include lib/work_take.lua

local CLAIM_WAS_READY = 1

-- The first ready messages that live.
local function claim_ready(list, most, until_place)
  local ready = list.slot .. 'ready:' .. list.name
  local to = until_place > 0 and string.format('%d', until_place) or '+inf'
  while true do
    local ids = redis.call('ZRANGEBYSCORE', ready, '-inf', to, 'LIMIT', 0, most)
    local living = work_is_due(list) and work_living(list, ids) or ids
    if #living > 0 or #ids == 0 then
      return living
    end
  end
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
  redis.call('ZREMRANGEBYRANK', slot .. 'ready:' .. list.name, 0, #ids - 1)  -- the first ones there
  many('ZREM', slot .. 'expires:' .. list.name, ids)
  many('HDEL', slot .. 'messages', ids)
  work_drop('HDEL', slot .. 'bodies', ids)
  work_drop('HDEL', slot .. 'progress', ids)
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
  local ids = room > 0 and claim_ready(list, room, until_place) or {}
  local kept = many('HMGET', slot .. 'messages', ids)
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
  return chunk, #chunk.ids == most or #chunk.ids < #ids
end
