-- complete.lua: an item is gone, and all that was about it.
--
-- KEYS     1  prefix   of the queue's keys: keys.py
-- ARGV     1  id       the item's
-- RETURNS  1 if this call ended the item, 0 if there was none
-- ERRORS   none
-- SAME AS  nothing

local BACK_MOST = 1000  -- what a cleaner put back is on the left; a search deeper takes too long

local prefix, id = KEYS[1], ARGV[1]

local ended = redis.call('DEL', prefix .. 'item:' .. id)
redis.call('DEL', prefix .. 'lease:' .. id, prefix .. 'leased_by_session:' .. id)
if redis.call('LREM', prefix .. 'processing', 0, id) == 0 and ended == 1 then
  local queue = prefix .. 'queue'
  if redis.call('LPOS', queue, id, 'MAXLEN', BACK_MOST) then
    redis.call('LREM', queue, 1, id)
  end
end
return ended
