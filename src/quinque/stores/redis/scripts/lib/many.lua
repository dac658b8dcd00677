-- many(command, key, values, from): one command with any number of values after its key, those from
-- number `from` (1) on; what it answered, counts added up. With no values nothing is asked.

-- A Lua function takes some 8,000 values; an even number keeps pairs together.
local MANY_MOST = 4000

local function many(command, key, values, from)
  from = from or 1
  local last = #values
  if last < from then
    return {}
  elseif last - from < MANY_MOST then
    return redis.call(command, key, unpack(values, from, last))
  end
  local listed, added = {}, 0
  for first = from, last, MANY_MOST do
    local reply = redis.call(command, key, unpack(values, first, math.min(first + MANY_MOST - 1, last)))
    if type(reply) == 'table' then
      for at = 1, #reply do
        listed[first - from + at] = reply[at]
      end
    else
      added = added + reply
    end
  end
  return listed[1] ~= nil and listed or added
end
