-- claim_shrink(claim, keep, now_ms, settle_most): the messages of the claim's last chunk, but for its
-- first `keep` messages, are in the queue again as if they had not been delivered. False if the queue
-- belongs to another family. SAME AS engine/claims/returning.py:shrink
--
-- include lib/claim_chunk.lua
-- include lib/claim_close.lua
-- include lib/feed_undeliver.lua

-- The group may have those again that it still holds, and has had them once less often.
local function claim_undeliver(feed, claim, ids, rows)
  local keys = feed_group_keys(feed, claim.subscription.group)
  local picked = claim_feed_pick(feed, keys, ids, function() return rows end, true)
  local back, flushed = picked.back, picked.flushed_back
  feed_undeliver(keys, back)
  feed_give_back(feed, keys, back)
  feed_end_detached(feed, keys, claim.subscription.group, flushed)
  for _, id in ipairs(flushed) do
    back[#back + 1] = id
  end
  if #back > 0 then
    ready_names[feed.queue] = true
  end
  return back
end

local function claim_forget(claim, rows)
  local ids = {}
  for at, row in ipairs(rows) do
    ids[at] = row[1]
    if row[11] then
      redis.call('HDEL', claim.keys, row[11])
    end
    claim.body_bytes = claim.body_bytes - #row[2]
  end
  claim.messages, claim.chunks = claim.messages - #ids, claim.chunks - 1
  many('HDEL', claim.marks, ids)
  return ids
end

local function claim_shrink(claim, keep, now_ms, settle_most)
  local subscription = claim.subscription
  local queue = claim_find_queue(subscription, now_ms, settle_most)
  if queue == nil then
    return false
  end
  local rows = cmsgpack.unpack(redis.call('RPOP', claim.rows))
  redis.call('RPOP', claim.ids)
  local stay, go = claim_chunk(), {}
  local before = claim.messages - #rows
  for at, row in ipairs(rows) do
    if before + at <= keep then
      claim_row(stay, row[1], row[2], row[3], row[4], row[5],
          claim_tail(row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13]))
    else
      go[#go + 1] = row
    end
  end
  local ids = claim_forget(claim, go)
  if subscription.is_worklist then
    queue = queue or work_make(subscription.slot, subscription.queue, subscription.family, now_ms)
    local messages = {}
    for at, row in ipairs(go) do
      messages[at] = claim_row_message(queue, row, row[3] - 1)
    end
    claim_put_back(queue, messages)
    redis.call('HINCRBY', queue.slot .. 'worklist:' .. queue.name, 'claimed', 0 - #go)
  else
    ids = queue and claim_undeliver(queue, claim, ids, go) or {}
  end
  record(subscription.slot, now_ms, RETURNED, CLAIM_SHRUNK, subscription.family, subscription.queue,
      subscription.is_worklist and subscription.name or subscription.group, claim.number, ids)
  -- The messages that stay were counted with the rest.
  claim.messages = claim.messages - #stay.ids
  claim.body_bytes = claim.body_bytes - stay.body_bytes
  claim_append(claim, stay)
  return true
end
