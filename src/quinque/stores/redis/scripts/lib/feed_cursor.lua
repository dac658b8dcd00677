-- feed_cursor(kept): the place a group has come to, and its number among all groups that ever were,
-- from what `groups` holds of it: "number place". Nothing for a group that is not there.
local function feed_cursor(kept)
  if not kept then
    return nil
  end
  local number, place = string.match(kept, '^(%d+) (%d+)$')
  return tonumber(place), tonumber(number)
end
