-- feed_page(feed, chunk, after, till, count): rows of up to `count` messages of the feed with a place
-- after one and up to another are in the chunk. Returns the place of the last that was looked at,
-- and whether there are no more.
--
-- include lib/claim_chunk.lua
-- include lib/feed_keys.lua
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/read_bodies.lua

local FEED_PAGE_IS_SINGLE = 2  -- model/rows.py:IS_SINGLE

local function feed_page(feed, chunk, after, till, count)
  local found = redis.call('ZRANGEBYSCORE', feed.order, '(' .. after, till, 'WITHSCORES', 'LIMIT', 0,
      count)
  local ids, last = {}, tonumber(after)
  for at = 1, #found / 2 do
    ids[at] = found[2 * at - 1]
  end
  local bodies = read_bodies(feed.bodies, ids, CHUNK_BYTES_MOST)
  local expiries = many('ZMSCORE', feed.expiries, ids)
  local singles = is_there(feed.singles) and many('SMISMEMBER', feed.singles, ids) or {}
  local tails = {
    [0] = claim_tail(0, 0, 0, 0, '', nil, nil, 0),
    claim_tail(0, 0, 0, 0, '', nil, nil, FEED_PAGE_IS_SINGLE),
  }
  for at, body in ipairs(bodies) do
    local place, expires_ms = tonumber(found[2 * at]), tonumber(expiries[at] or 0)
    local is_over = 0 < expires_ms and expires_ms <= feed.now_ms
    if body and not is_over and not claim_row(chunk, ids[at], body, 0, place, expires_ms,
        tails[singles[at] or 0]) then
      return last, false
    end
    last = place
  end
  return last, #bodies == #ids and #ids < count
end
