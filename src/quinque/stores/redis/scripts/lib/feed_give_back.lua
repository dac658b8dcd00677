-- feed_give_back(feed, keys, ids): the group of these keys, which held the messages, may have them
-- again, at their old places.
--
-- include lib/many.lua

local function feed_give_back(feed, keys, ids)
  local placed = {}
  local places = many('ZMSCORE', feed.order, ids)
  for at, id in ipairs(ids) do
    placed[2 * at - 1] = places[at]
    placed[2 * at] = id
  end
  many('ZADD', keys.again, placed)
  many('ZREM', keys.held, ids)
end
