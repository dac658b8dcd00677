-- feed_round(feed): whether the script may clear another lot of expired messages out of its way.
-- If not, what it looks for is not found yet, and the caller has to ask again.

-- Of 500 messages each: together some 20 ms of work.
local FEED_ROUNDS = 6

local function feed_round(feed)
  feed.rounds = feed.rounds + 1
  return feed.rounds <= FEED_ROUNDS
end
