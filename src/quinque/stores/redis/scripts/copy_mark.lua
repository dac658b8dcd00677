-- copy_mark.lua: the store is marked as one that another is copied into, or looked at.
--
-- KEYS     1  copy       HASH  source, queue, after
-- ARGV     1.. field, value    what the mark says from here on
-- RETURNS  source, queue, after; nothing = it is not marked
-- ERRORS   none
-- SAME AS  stores/embedded/copy_mark.py:CopyMark

if #ARGV > 0 then
  redis.call('HSET', KEYS[1], unpack(ARGV))
end
return {{}, {}, {}, redis.call('HMGET', KEYS[1], 'source', 'queue', 'after')}
