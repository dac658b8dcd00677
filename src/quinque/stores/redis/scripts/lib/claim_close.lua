-- claim_close(subscription, now_ms, settle_most, upto, state, why): settle or forfeit open claims up
-- to that number, as `state` says, and finish or return as many messages of closed claims as one
-- script may. Returns how many are finished and how many went back; there is more to do if
-- claim_is_closing(). The caller has to keep the subscription itself.
--
-- claim_find_queue(subscription, now_ms, settle_most): its worklist or feed as it is now, false if it
-- is not there, nothing if the name belongs to another family.
--
-- claim_is_stuck(subscription, now_ms, settle_most): whether it has messages of a worklist that could
-- not go back, for the name belongs to another family.
--
-- include lib/claim_end_feed.lua
-- include lib/claim_end_work.lua
-- include lib/claim_marks.lua
-- include lib/claim_purge.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/hash_some.lua
-- include lib/is_there.lua
-- include lib/work_find.lua
-- include lib/work_make.lua

local CLOSE_MOST = 1000  -- messages put back by one script: some 5 ms
-- Of a chunk with few messages, in messages put back: of a worklist, of a feed.
local CHUNK_COST, FEED_CHUNK_COST = 2, 8
local CLAIMS_MOST = 500  -- claims settled or forfeited by one script: some 5 ms

local function claim_has_closing(subscription)
  return subscription.closing <= subscription.settled
end

local function claim_is_closing(subscription)
  return subscription.is_cut or claim_has_closing(subscription)
end

local function claim_find_queue(subscription, now_ms, settle_most)
  local slot, queue, family = subscription.slot, subscription.queue, subscription.family
  if subscription.is_worklist then
    return work_find(slot, queue, family, now_ms, settle_most)
  end
  local feed = feed_keys(slot, queue)
  if feed_open(feed, family, now_ms, settle_most) then
    return feed.is_there and feed
  end
end

local function claim_is_stuck(subscription, now_ms, settle_most)
  local has_messages = subscription.closing <= subscription.last
  return subscription.is_worklist and has_messages
      and claim_find_queue(subscription, now_ms, settle_most) == nil
end

-- Keys of messages that are finished are free: about as many as there is room for. Returns the room
-- that is left, and whether that was all of them.
local function claim_free_keys(claim, room)
  if claim.state ~= CLAIM_IS_SETTLED then
    return room, true
  end
  local subscription = claim.subscription
  local keys = subscription.slot .. 'keys:' .. subscription.queue
  while room > 0 and is_there(claim.keys) do
    local kept, names, free = hash_some(claim.keys, math.ceil(room)), {}, {}
    for at = 1, #kept, 2 do
      names[#names + 1] = kept[at]
    end
    for at, id in ipairs(many('HMGET', keys, names)) do
      if id == kept[2 * at] then
        free[#free + 1] = names[at]
      end
    end
    many('HDEL', keys, free)
    many('HDEL', claim.keys, names)
    room = room - #names
  end
  return room, not is_there(claim.keys)
end

local function claim_is_done(claim)
  if claim.state == CLAIM_IS_SETTLED then
    redis.call('UNLINK', claim.ids, claim.keys, claim.marks)
    claim_purge(claim.subscription, claim.number - 1)  -- only the last one can be read
  else
    redis.call('UNLINK', claim.rows, claim.ids, claim.keys, claim.marks)
    claim.messages, claim.body_bytes, claim.chunks, claim.applied = 0, 0, 0, 0
  end
end

-- Of as many chunks as there is room for; how many messages are finished, went back, and the room.
local function claim_apply(claim, queue, now_ms, room)
  local subscription = claim.subscription
  local own = subscription.is_worklist and subscription.name or subscription.group
  local function note(kind, reason, ids, count, group)
    if count > 0 then
      record(subscription.slot, now_ms, kind, reason, subscription.family, subscription.queue,
          group or own, claim.number, ids, count)
    end
  end
  local marks_of = queue and claim.state == CLAIM_IS_SETTLED and claim_marks(claim)
  local least = subscription.is_worklist and CHUNK_COST or FEED_CHUNK_COST
  local finished, returned = 0, 0
  while claim.applied < claim.chunks and room > 0 do
    local some, back, cost = 0, 0, 0
    local marks, marks_cost = nil, 0
    if marks_of then
      marks, marks_cost = marks_of(claim.applied)
    end
    if subscription.is_worklist then
      some, back, cost = claim_end_work(queue, claim, claim.applied, marks, note)
    elseif queue then
      some, back, cost = claim_end_feed(queue, claim, claim.applied, marks, note)
    end
    finished, returned = finished + some, returned + back
    room = room - math.max(cost, least) - marks_cost
    claim.applied = claim.applied + 1
  end
  return finished, returned, room
end

local function claim_close(subscription, now_ms, settle_most, upto, state, why)
  upto = math.min(upto, subscription.last)
  subscription.is_cut = upto - subscription.settled > CLAIMS_MOST
  for number = subscription.settled + 1, math.min(upto, subscription.settled + CLAIMS_MOST) do
    local claim = claim_load(subscription, number)
    claim.state, claim.why, claim.ended_ms = state, why, now_ms
    subscription.ends[number] = state
    claim_keep(claim)
    if number == subscription.first then
      subscription.ended_ms = now_ms
    end
    subscription.settled = number
  end
  local finished, returned, room = 0, 0, CLOSE_MOST
  local queue = claim_has_closing(subscription)
      and claim_find_queue(subscription, now_ms, settle_most)
  while claim_has_closing(subscription) and room > 0 do
    local claim = claim_load(subscription, subscription.closing)
    subscription.ends[claim.number] = claim.state
    local needs_queue = subscription.is_worklist and claim.applied < claim.chunks
        and (claim.state == CLAIM_IS_FORFEITED or is_there(claim.marks))
    if needs_queue and queue == nil then
      break  -- it has to wait until the name is free
    elseif needs_queue and not queue then
      queue = work_make(subscription.slot, subscription.queue, subscription.family, now_ms)
    end
    local some, back
    some, back, room = claim_apply(claim, queue, now_ms, room)
    finished, returned, room = finished + some, returned + back, room - 1
    local is_done = claim.applied == claim.chunks
    if is_done then
      room, is_done = claim_free_keys(claim, room)
    end
    if is_done then
      subscription.closing = subscription.closing + 1
      claim_is_done(claim)
    end
    claim_keep(claim)
  end
  return finished, returned
end
