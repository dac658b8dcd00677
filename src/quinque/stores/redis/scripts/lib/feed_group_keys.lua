-- feed_group_keys(feed, group): the keys of one group of a feed, by what they hold.
local function feed_group_keys(feed, group)
  local names = ':' .. #feed.queue .. ':' .. feed.queue .. ':' .. group
  return {
    held = feed.prefix .. 'held' .. names,
    again = feed.prefix .. 'again' .. names,
    deliveries = feed.prefix .. 'deliveries' .. names,
    detached = feed.prefix .. 'detached' .. names,
    detached_expiries = feed.prefix .. 'detached_expiries' .. names,
  }
end
