-- feed_count_deliveries(keys, ids, is_kept): how often each of the messages, which the group of these
-- keys may have again, was delivered by now. If that is to be kept, those that were more than once
-- are on record.
--
-- include lib/many.lua

local function feed_count_deliveries(keys, ids, is_kept)
  local deliveries, several = {}, {}
  for at, before in ipairs(many('ZMSCORE', keys.deliveries, ids)) do
    deliveries[at] = (tonumber(before) or 1) + 1
    if deliveries[at] > 1 then
      several[#several + 1] = deliveries[at]
      several[#several + 1] = ids[at]
    end
  end
  many('ZREM', keys.again, ids)
  many('ZREM', keys.deliveries, ids)
  if is_kept then
    many('ZADD', keys.deliveries, several)
  end
  return deliveries
end
