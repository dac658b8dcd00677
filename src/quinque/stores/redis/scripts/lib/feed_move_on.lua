-- feed_move_on(feed, group, last_id): the group, made if it is not there, has come to this message.
--
-- include lib/feed_cursor.lua

local function feed_move_on(feed, group, last_id)
  local _, number = feed_cursor(redis.call('HGET', feed.groups, group))
  number = number or redis.call('HINCRBY', feed.about, 'groups_ever', 1)
  local place = tonumber(redis.call('ZSCORE', feed.order, last_id))
  redis.call('HSET', feed.groups, group, string.format('%.0f %.0f', number, place))
end
