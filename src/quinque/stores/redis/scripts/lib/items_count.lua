-- items_count(name): how many ids are in the lists of the queue of items; 0 for other types.
local function items_count(name)
  local count = 0
  for _, kind in ipairs({':queue', ':processing'}) do
    local length = redis.pcall('LLEN', name .. kind)
    count = count + (type(length) == 'number' and length or 0)
  end
  return count
end
