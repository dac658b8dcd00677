-- feed_unfound(feed, ids, bodies): of the first messages, as many as there are bodies, those that have
-- one, and their bodies. The other ids have no message any more, and leave the feed.
-- SAME AS nothing: an embedded store has no ids apart from their messages
--
-- include lib/feed_remove.lua
-- include lib/log_unfound.lua

local function feed_unfound(feed, ids, bodies)
  local unfound, found, of_found = {}, {}, {}
  for at, body in ipairs(bodies) do
    if body then
      found[#found + 1], of_found[#of_found + 1] = ids[at], body
    else
      unfound[#unfound + 1] = ids[at]
    end
  end
  feed_remove(feed, unfound, REMOVED, NONE)
  log_unfound(feed.queue, unfound)
  return found, of_found
end
