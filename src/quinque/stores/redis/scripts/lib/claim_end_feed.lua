-- claim_end_feed(feed, claim, at, marks, note): what became of the claim is true of the messages of
-- its chunk `at` that its group still holds. note(kind, reason, ids, count, group) has it recorded. Returns
-- how many are finished, how many the group may have again, and what that cost, in messages put back
-- into a worklist.
--
-- include lib/answer.lua
-- include lib/claim_feed_pick.lua
-- include lib/claim_load.lua
-- include lib/feed_end_detached.lua
-- include lib/feed_give_back.lua
-- include lib/feed_remove.lua

local function claim_end_feed(feed, claim, at, marks, note)
  local group = claim.subscription.group
  local keys, ids = feed_group_keys(feed, group), cmsgpack.unpack(redis.call('LINDEX', claim.ids, at))
  local function rows()
    return cmsgpack.unpack(redis.call('LINDEX', claim.rows, at))
  end
  local picked = claim_feed_pick(feed, keys, ids, rows, claim.state == CLAIM_IS_FORFEITED, marks)
  local why = claim.state == CLAIM_IS_FORFEITED and claim.why or NACKED
  note(RETURNED, why, picked.back, #picked.back)
  note(RETURNED, why, picked.flushed_back, #picked.flushed_back)
  note(ACKED, CLAIM_SETTLED, picked.done, #picked.done)
  note(ACKED, CLAIM_SETTLED, picked.gone, #picked.gone)
  note(ACKED, CLAIM_SETTLED, picked.gone, #picked.gone, '')  -- for everyone, too
  note(ACKED, CLAIM_SETTLED, picked.flushed, #picked.flushed)
  many('ZREM', keys.held, picked.done)
  many('ZREM', keys.deliveries, picked.done)
  feed_give_back(feed, keys, picked.back)
  feed_end_detached(feed, keys, group, picked.flushed)
  feed_end_detached(feed, keys, group, picked.flushed_back)
  feed_remove(feed, picked.gone)
  if #picked.back + #picked.flushed_back > 0 then
    ready_names[feed.queue] = true
  end
  return #picked.done + #picked.gone + #picked.flushed, #picked.back + #picked.flushed_back, #ids / 3
end
