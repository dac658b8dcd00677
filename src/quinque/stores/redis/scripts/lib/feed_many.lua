-- feed_many(command, key, values): one command with any number of values after its key; what it
-- answered, counts added up. With no values nothing is asked.

-- A Lua function takes some 8,000 values; an even number keeps pairs together.
local FEED_MANY = 4000

local function feed_many(command, key, values)
  if #values == 0 then
    return {}
  elseif #values <= FEED_MANY then
    return redis.call(command, key, unpack(values))
  end
  local listed, added = {}, 0
  for from = 1, #values, FEED_MANY do
    local to = math.min(from + FEED_MANY - 1, #values)
    local reply = redis.call(command, key, unpack(values, from, to))
    if type(reply) == 'table' then
      for at = 1, #reply do
        listed[from + at - 1] = reply[at]
      end
    else
      added = added + reply
    end
  end
  return listed[1] ~= nil and listed or added
end
