-- record_first(slot): the number of the first row on record, and when it was written (ms); nothing
-- if there is none. record_start(entry): the same of a packed entry.
local function record_start(entry)
  local _, number, at_ms = cmsgpack.unpack_limit(entry, 2, 1)  -- after the byte that says: a list
  return number, at_ms
end

local function record_first(slot)
  local item = redis.call('XRANGE', slot .. 'record', '-', '+', 'COUNT', 1)[1]
  if item then
    return record_start(item[2][2])
  end
end
