-- first_place_ms(...): since when the first that this command finds, WITHSCORES, has been in its place
-- (ms), if scores are places; -1 = it finds nothing.
local function first_place_ms(...)
  local place = redis.call(...)[2]
  return place and math.floor(tonumber(place) / 1000) or -1
end
