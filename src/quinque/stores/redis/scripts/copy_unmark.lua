-- copy_unmark.lua: the store is not marked any more.
--
-- KEYS     1  copy       HASH  source, queue, after
-- ARGV     none
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  stores/embedded/copy_mark.py:CopyMark

redis.call('DEL', KEYS[1])
return {{}, {}, {}, false}
