-- find_record.lua: how far the record of a slot goes.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  log              tells it from other records, if it has no such number yet; 0 = not asked
-- RETURNS  as lib/record_extent.lua has it, and that number (0 = none yet)
-- ERRORS   none
-- SAME AS  model/look_ops.py:Record

-- include lib/answer.lua
-- include lib/record_extent.lua

local extent = record_extent(slot_prefix(KEYS[1]))
if ARGV[1] ~= '0' and extent[2] > 1 then
  redis.call('HSETNX', KEYS[1], 'log', ARGV[1])
end
extent[5] = tonumber(redis.call('HGET', KEYS[1], 'log') or 0)
return answer(extent)
