-- record_extent(slot): the number of the first row on record, that of the next there will be, when
-- the first was written (ms; 0 = there is none), about how many bytes all of it takes.
--
-- include lib/record_first.lua
local function record_extent(slot)
  local next_number = tonumber(redis.call('HGET', slot .. 'slot', 'rows') or 0) + 1
  local first, first_ms = record_first(slot)
  return {
    first or next_number,
    next_number,
    first_ms or 0,
    first and redis.call('MEMORY', 'USAGE', slot .. 'record') or 0,
  }
end
