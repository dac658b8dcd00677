-- settle.lua: items that exist, do not wait and have no lease wait again; ids without an item, and
-- second copies, are out of `processing`.
--
-- KEYS     1  prefix        of the queue's keys: keys.py
-- ARGV     1  has_landmark  0 = the queue was empty when it was read
--          2  landmark      the id that was its first on the left then
--          3  right         how far from the right end of `processing` the ids are, about
--          4  size          … within a part of so many ids; 0 = wherever they are
--          5.. kind, id     for each id, where it was when the lists were read:
--                           p in `processing`, q in the queue, b in both, n in neither
-- RETURNS  0 if the queue has changed too much since it was read, and nothing was done; else
--          a letter for each id (r put back, g gone, d a copy less, - let be), the first id of the
--          queue, and the ids that others put there since it was read
-- ERRORS   none
-- SAME AS  nothing

local NEW_MOST = 2000  -- ids: more of them are better read by the caller
local FRESH_MOST = 1000  -- as far from the left an id is looked for that has just been handed out

local prefix = KEYS[1]
local right, size = tonumber(ARGV[3]), tonumber(ARGV[4])
local queue, processing, cleaning = prefix .. 'queue', prefix .. 'processing', prefix .. 'cleaning'
local item, lease, old_lease = prefix .. 'item:', prefix .. 'lease:', prefix .. 'leased_by_session:'

local new_count = ARGV[1] == '1' and redis.call('LPOS', queue, ARGV[2], 'MAXLEN', NEW_MOST + 1)
if not new_count then
  -- All that was there when it was read has been handed out, or is further away.
  new_count = redis.call('LLEN', queue)
  if new_count > NEW_MOST then
    return 0
  end
end
local new = new_count > 0 and redis.call('LRANGE', queue, 0, new_count - 1) or {}
local waits = {}
for _, id in ipairs(new) do
  waits[id] = true
end
local is_cleaning = redis.call('EXISTS', cleaning) == 1

-- Where in `processing` the ids are, as far as they are in the part.
local places = {}
if size > 0 then
  for at = 6, #ARGV, 2 do
    places[ARGV[at]] = {}
  end
  local last = redis.call('LLEN', processing) - 1 - right
  local first = math.max(0, last + 1 - size)
  for at, id in ipairs(last >= 0 and redis.call('LRANGE', processing, first, last) or {}) do
    if places[id] then
      table.insert(places[id], first + at - 1)
    end
  end
end

-- Whether a copy of the id was in `processing`; it is not there any more.
local function take_out(id)
  if size == 0 then
    return redis.call('LREM', processing, -1, id) > 0
  end
  local at = table.remove(places[id])
  if not at then
    return false
  end
  -- LREM would pass all that is right of it. Order means nothing here: the last one gets its place.
  local last = redis.call('RPOP', processing)
  local last_at = redis.call('LLEN', processing)
  if at < last_at then
    redis.call('LSET', processing, at, last)
    for number, place in ipairs(places[last] or {}) do
      if place == last_at then
        places[last][number] = at
      end
    end
  end
  return true
end

-- What became of one id, whose item is nobody's.
local function settle(kind, id)
  if kind == 'q' then
    return '-'
  elseif kind == 'n' then
    if waits[id] or redis.call('LPOS', processing, id, 'MAXLEN', FRESH_MOST) then
      return '-'
    end
  elseif not take_out(id) then
    return '-'  -- somebody else saw to it
  elseif kind == 'b' or waits[id] then
    return 'd'
  end
  redis.call('LPUSH', queue, id)
  waits[id] = true
  return 'r'
end

local done = {}
for at = 5, #ARGV, 2 do
  local kind, id = ARGV[at], ARGV[at + 1]
  local outcome = '-'
  if redis.call('EXISTS', item .. id) == 0 then
    if (kind == 'p' or kind == 'b') and take_out(id) then
      outcome = 'g'
    end
    redis.call('DEL', lease .. id, old_lease .. id)
  elseif redis.call('EXISTS', lease .. id, old_lease .. id) == 0 then
    outcome = settle(kind, id)
  end
  if is_cleaning then
    redis.call('LREM', cleaning, 0, id)
  end
  done[#done + 1] = outcome
end
return {table.concat(done), redis.call('LINDEX', queue, 0), new}
