-- feed_first(feed, now_ms, most, ahead): the first living message of those that ahead(count) gives,
-- after clearing expired ones out of the way; nothing when there is none, or feed_round says no.
--
-- include lib/feed_part.lua
-- include lib/feed_remove.lua
-- include lib/feed_round.lua

local function feed_first(feed, now_ms, most, ahead)
  if not feed.is_flooded then
    return ahead(1)[1]
  end
  local ids = ahead(most)
  while #ids > 0 and feed_round(feed) do
    local living, expired = feed_part(feed, ids, now_ms)
    feed_remove(feed, expired, EXPIRED, NONE)
    if #living > 0 then
      return living[1]
    end
    ids = ahead(most)
  end
end
