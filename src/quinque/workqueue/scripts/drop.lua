-- drop.lua: ids of a part of the queue that do not belong there are gone from it.
--
-- KEYS     1  prefix  of the queue's keys: keys.py
-- ARGV     1  right             how far the part is from the right end
--          2  size              how many ids it has
--          3  mark              an id that nobody has
--          4.. kind, id, at     g gone (it has no data), h held and in `processing`,
--                               t twice: another copy is `at` from the right end, or was
-- RETURNS  how many without data were dropped, how many others; 1 if there may be more in this part
-- ERRORS   none
-- SAME AS  nothing

-- LREM passes what is between an id and an end at about 35 ns each.
local NEAR_MOST = 30000
local NEAR_DROPPED_MOST = 200  -- an LSET near an end takes about 5 µs
local FAR_DROPPED_MOST = 20  -- in the middle of a million, about 60 µs
-- Between being read and being asked for again a copy may have come so much nearer to the right.
local DRIFT_MOST = 500
local SLACK = 50

local prefix, mark = KEYS[1], ARGV[3]
local queue, processing = prefix .. 'queue', prefix .. 'processing'
local item, lease, old_lease = prefix .. 'item:', prefix .. 'lease:', prefix .. 'leased_by_session:'

local length = redis.call('LLEN', queue)
local last = length - 1 - tonumber(ARGV[1])
local first = math.max(0, last + 1 - tonumber(ARGV[2]))
if last < 0 then
  return {0, 0, 0}
end

local function is_held(id)
  return redis.call('EXISTS', lease .. id, old_lease .. id) > 0
      and redis.call('EXISTS', item .. id) == 1
      and redis.call('LPOS', processing, id)
end

-- Whether a copy is right of this part, about so far from the right end.
local function is_further_right(id, at)
  local from = math.max(last + 1, length - 1 - at - SLACK)
  for _, other in ipairs(redis.call('LRANGE', queue, from, length - 1 - at + DRIFT_MOST)) do
    if other == id then
      return true
    end
  end
  return false
end

local unwanted, has_copy = {}, {}
for at = 4, #ARGV, 3 do
  local kind, id = ARGV[at], ARGV[at + 1]
  if kind == 't' then
    unwanted[id] = 't'
    has_copy[id] = is_further_right(id, tonumber(ARGV[at + 2]))
  elseif kind == 'h' and is_held(id)
      or kind == 'g' and redis.call('EXISTS', item .. id) == 0 then
    unwanted[id] = kind
  end
end

local from_end = math.min(first, length - 1 - last)
local is_near = from_end <= NEAR_MOST
local most = is_near and NEAR_DROPPED_MOST or FAR_DROPPED_MOST
local part = redis.call('LRANGE', queue, first, last)
local dropped, ghosts = 0, 0
for at = #part, 1, -1 do
  local id = part[at]
  local kind = unwanted[id]
  if kind == 't' and not has_copy[id] then
    has_copy[id] = true  -- the one that waits longest stays
  elseif kind and dropped < most then
    dropped = dropped + 1
    ghosts = ghosts + (kind == 'g' and 1 or 0)
    if is_near then
      redis.call('LSET', queue, first + at - 1, mark)
    else
      -- Taking it out would stop Redis too long: the newest id gets its place.
      local newest = redis.call('LPOP', queue)
      redis.call('LSET', queue, first + at - 1 - dropped, newest)
    end
  end
end
if is_near and dropped > 0 then
  redis.call('LREM', queue, first <= length - 1 - last and dropped or -dropped, mark)
end
return {ghosts, dropped - ghosts, dropped == most and 1 or 0}
