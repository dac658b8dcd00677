-- feed_undeliver(keys, ids): the group of these keys, which holds the messages, has had them once less
-- often.
--
-- include lib/many.lua

local function feed_undeliver(keys, ids)
  local several, once = {}, {}
  for at, counted in ipairs(many('ZMSCORE', keys.deliveries, ids)) do
    local deliveries = (tonumber(counted) or 1) - 1
    if deliveries == 1 then
      once[#once + 1] = ids[at]
    else
      several[#several + 1], several[#several + 2] = deliveries, ids[at]
    end
  end
  many('ZREM', keys.deliveries, once)
  many('ZADD', keys.deliveries, several)
end
