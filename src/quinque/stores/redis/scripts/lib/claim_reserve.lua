-- claim_reserve(feed, group, most, settle_most, until_place): a chunk of up to `most` messages of the
-- feed, none of a later place (0 = any), which the group holds without an end; and whether there may
-- be more. SAME AS scripts/reserve.lua, but for the end.
--
-- include lib/claim_chunk.lua
-- include lib/claim_keep_subscription.lua
-- include lib/feed_ahead.lua
-- include lib/feed_count_deliveries.lua
-- include lib/feed_move_on.lua
-- include lib/feed_share.lua
-- include lib/is_there.lua
-- include lib/read_bodies.lua
-- include rarely lib/feed_unfound.lua

local CLAIM_IS_SINGLE = 2

-- The next messages for the group that live and have such a place, their places, and whether it had
-- them before.
local function claim_ahead(feed, group, most, settle_most, until_place)
  while true do
    local ids, comes_again = feed_ahead(feed, group, feed.now_ms, settle_most, most)
    local living, expired = ids, {}
    if feed.is_flooded then
      living, expired = feed_part(feed, ids, feed.now_ms)
      feed_remove(feed, expired, EXPIRED, NONE)
    end
    if #living > 0 or #ids == 0 or not feed_round(feed) then
      local near, places = {}, {}
      for at, place in ipairs(many('ZMSCORE', feed.order, living)) do
        places[at] = tonumber(place)
        if until_place == 0 or places[at] <= until_place then
          near[at] = living[at]
        end
      end
      return near, places, comes_again
    end
  end
end

local function claim_hold(feed, keys, group, ids, comes_again)
  if not comes_again then
    feed_move_on(feed, group, ids[#ids])
  end
  -- A lease from before a flush was on another message with the same id.
  if is_there(keys.detached) and many('ZREM', keys.detached, ids) > 0 then
    many('ZREM', keys.detached_expiries, ids)
  end
  local held = {}
  for at, id in ipairs(ids) do
    held[2 * at - 1], held[2 * at] = CLAIM_NEVER_MS, id
  end
  many('ZADD', keys.held, held)
end

local function claim_reserve(feed, group, most, settle_most, until_place)
  settle_most = feed_share(feed, settle_most)
  most = feed.is_flooded and math.min(most, settle_most) or most
  local keys, chunk = feed_group_keys(feed, group), claim_chunk()
  local ids, places, comes_again = claim_ahead(feed, group, most, settle_most, until_place)
  local bodies, _, is_unfound = read_bodies(feed.bodies, ids, CHUNK_BYTES_MOST)
  if is_unfound then
    ids, bodies = feed_unfound(feed, ids, bodies)
    places = many('ZMSCORE', feed.order, ids)
  end
  local expiries = many('ZMSCORE', feed.expiries, ids)
  local singles = is_there(feed.singles) and many('SMISMEMBER', feed.singles, ids) or {}
  local before = comes_again and many('ZMSCORE', keys.deliveries, ids) or {}
  local tails = {
    [0] = claim_tail(0, 0, 0, 0, '', nil, nil, 0),
    claim_tail(0, 0, 0, 0, '', nil, nil, CLAIM_IS_SINGLE),
  }
  for at, body in ipairs(bodies) do
    local attempt = comes_again and (tonumber(before[at]) or 1) + 1 or 1
    if not claim_row(chunk, ids[at], body, attempt, tonumber(places[at]), tonumber(expiries[at] or 0),
        tails[singles[at] or 0]) then
      break
    end
  end
  if #chunk.ids > 0 then
    if comes_again then
      feed_count_deliveries(keys, chunk.ids, true)
    end
    claim_hold(feed, keys, group, chunk.ids, comes_again)
    keep_time(feed.prefix, feed.now_ms)
  end
  if #chunk.ids == 0 then
    return chunk, is_unfound or feed.rounds > FEED_ROUNDS
  end
  return chunk, is_unfound or comes_again or #chunk.ids == most or #chunk.ids < #ids
end
