-- lease.lua: the item that has waited longest is held by a session, for a time. Ids without an item,
-- and copies of ids whose item somebody holds, are taken out of the way.
--
-- KEYS     1  prefix      of the queue's keys: keys.py
-- ARGV     1  session     who will hold it
--          2  lease_ms    for how long
--          3  writes      new, old or both: which leases to write
--          4.. popped     an id that this session moved to `processing` already, if it did
-- RETURNS  the id and the data; 0 if nothing waits; 1 if there may be more to look at
-- ERRORS   none
-- SAME AS  nothing

local SKIP_MOST = 500  -- in one call: about a millisecond

local prefix = KEYS[1]
local session, lease_ms, writes = ARGV[1], ARGV[2], ARGV[3]
local queue, processing = prefix .. 'queue', prefix .. 'processing'

local at = 4
-- No functions in here: to make them took a tenth of the call.
for _ = 1, SKIP_MOST do
  local id = at <= #ARGV and ARGV[at]
  at = at + 1
  if not id then
    id = redis.call('LMOVE', queue, processing, 'RIGHT', 'LEFT')
    if not id then
      return 0
    end
  elseif not redis.call('LPOS', processing, id) then
    id = nil  -- a cleaner found it there without a lease and put it back
  end
  if id then
    local data = redis.call('GET', prefix .. 'item:' .. id)
    local lease, other = prefix .. 'lease:' .. id, prefix .. 'leased_by_session:' .. id
    if writes == 'old' then
      lease, other = other, lease
    end
    if data and redis.call('SET', lease, session, 'PX', lease_ms, 'NX') then
      if writes == 'both' and redis.call('SET', other, session, 'PX', lease_ms, 'NX')
          or writes ~= 'both' and redis.call('EXISTS', other) == 0 then
        return {id, data}
      end
      redis.call('DEL', lease)
    end
    -- It is gone, or somebody holds it. Then one copy stays: by it a cleaner finds the item when
    -- the lease ends.
    if not data or redis.call('LPOS', processing, id, 'RANK', 2) then
      redis.call('LREM', processing, 1, id)
    end
  end
end
return 1
