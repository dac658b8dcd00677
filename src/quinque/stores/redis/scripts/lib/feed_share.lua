-- feed_share(feed, most): of `most` messages, how many are removed or returned at once: what each of
-- them costs grows with the number of groups.

local FEED_GROUPS_FREE = 5  -- with as many groups a message costs some three times as much

local function feed_share(feed, most)
  return math.ceil(most / (1 + redis.call('HLEN', feed.groups) / FEED_GROUPS_FREE))
end
