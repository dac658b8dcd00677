-- claim_feed_pick(feed, keys, ids, rows, is_back, marks): what becomes of claimed messages that the
-- group of these keys still holds, in lists of ids. rows() gives the rows of these ids.
--
--   done, gone, flushed     they are finished: for the group, for everyone, as ones that were flushed
--   back, flushed_back      they are given back, all if it is_back, else those that are marked so
--
-- SAME AS engine/claims/returning.py:still_held
--
-- include lib/claim_keep_subscription.lua
-- include lib/claim_marks.lua
-- include lib/is_there.lua
-- include lib/many.lua

-- The places of the messages that were claimed, by id, and of those that have these ids now.
local function claim_feed_places(feed, ids, rows)
  local claimed = {}
  if not redis.call('HGET', feed.about, 'has_chosen_ids') then
    return claimed, {}
  end
  for _, row in ipairs(rows()) do
    claimed[row[1]] = row[4]
  end
  return claimed, many('ZMSCORE', feed.order, ids)
end

local function claim_feed_pick(feed, keys, ids, rows, is_back, marks)
  local picked = {done = {}, gone = {}, flushed = {}, back = {}, flushed_back = {}}
  local held = many('ZMSCORE', keys.held, ids)
  local detached = is_there(keys.detached) and many('ZMSCORE', keys.detached, ids) or {}
  local singles = is_there(feed.singles) and many('SMISMEMBER', feed.singles, ids) or {}
  local claimed, places = claim_feed_places(feed, ids, rows)
  for at, id in ipairs(ids) do
    local mark = marks and marks[id]
    local goes_back = is_back or (mark and mark.outcome == CLAIM_NACK)
    local kind
    -- Held until some time, or of another place, it came again under the same id: another one.
    if held[at] and tonumber(held[at]) >= CLAIM_NEVER_MS
        and (not places[at] or tonumber(places[at]) == claimed[id]) then
      kind = goes_back and 'back' or singles[at] == 1 and 'gone' or 'done'
    elseif detached[at] and tonumber(detached[at]) >= CLAIM_NEVER_MS then
      kind = goes_back and 'flushed_back' or 'flushed'
    end
    if kind then
      picked[kind][#picked[kind] + 1] = id
    end
  end
  return picked
end
