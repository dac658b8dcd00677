-- find_record.lua: how far the record of a slot goes.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     none
-- RETURNS  as lib/record_extent.lua has it
-- ERRORS   none
-- SAME AS  model/look_ops.py:Record

-- include lib/answer.lua
-- include lib/record_extent.lua

return answer(record_extent(slot_prefix(KEYS[1])))
