-- add.lua: an item is there and waits, unless its id is taken.
--
-- KEYS     1  prefix      of the queue's keys: keys.py
-- ARGV     1  id          the item's
--          2  data        the item's
--          3  is_checked  1 = not if an item has this id; 0 = whatever is there
-- RETURNS  1 if it was added, 0 if an item has this id
-- ERRORS   none
-- SAME AS  nothing

local prefix = KEYS[1]
local id, data, is_checked = ARGV[1], ARGV[2], ARGV[3] == '1'
local item = prefix .. 'item:' .. id

if redis.call('EXISTS', item) == 0 then
  -- No item, so nobody holds it: what was written after an item's end would keep this one waiting.
  redis.call('DEL', prefix .. 'lease:' .. id, prefix .. 'leased_by_session:' .. id)
elseif is_checked then
  return 0
end
-- First, because it is what may fail: the queue may be something else than a list.
redis.call('LPUSH', prefix .. 'queue', id)
redis.call('SET', item, data)
return 1
