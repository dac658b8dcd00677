-- extend.lua: an item is held by the session that holds it, for a time counted from now.
--
-- KEYS     1  prefix    of the queue's keys: keys.py
-- ARGV     1  id        the item's
--          2  session   who holds it
--          3  lease_ms  for how long
--          4  writes    new, old or both: which leases to write
-- RETURNS  1 if it is held, 0 if that session does not hold it, or there is no such item
-- ERRORS   none
-- SAME AS  nothing

local prefix = KEYS[1]
local id, session, lease_ms, writes = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease, old_lease = prefix .. 'lease:' .. id, prefix .. 'leased_by_session:' .. id

if redis.call('EXISTS', prefix .. 'item:' .. id) == 0
    or (redis.call('GET', lease) ~= session and redis.call('GET', old_lease) ~= session) then
  return 0
end
if writes ~= 'old' then
  redis.call('SET', lease, session, 'PX', lease_ms)
end
if writes ~= 'new' then
  redis.call('SET', old_lease, session, 'PX', lease_ms)
end
return 1
