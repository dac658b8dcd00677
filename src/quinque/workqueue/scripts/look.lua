-- look.lua: what items are, changing nothing.
--
-- KEYS     1  prefix  of the queue's keys: keys.py
-- ARGV     1.. id         of items
-- RETURNS  a letter for each: h held, w without a lease, g gone (it has no data)
-- ERRORS   none
-- SAME AS  nothing

local prefix = KEYS[1]
local item, lease, old_lease = prefix .. 'item:', prefix .. 'lease:', prefix .. 'leased_by_session:'

local found = {}
for at = 1, #ARGV do
  local id = ARGV[at]
  if redis.call('EXISTS', item .. id) == 0 then
    found[at] = 'g'
  elseif redis.call('EXISTS', lease .. id, old_lease .. id) > 0 then
    found[at] = 'h'
  else
    found[at] = 'w'
  end
end
return table.concat(found)
