-- items_lease_ends(list, ids): for each id when the lease of its item ends; false without a lease.
--
-- A lease lives as long as its key. If a broker gave it, the key's value also says when it ends: so
-- it ends at that moment for every broker, whether the clock is that of Redis or not. The values of
-- other clients mean nothing here.
--
-- items_stamp(end_ms): what a broker writes there.

-- A lease that does not end is looked at again after this time: a client may end it.
local ITEMS_LOOK_MS = 10000
local ITEMS_TOGETHER_MOST = 2000  -- ids: a Lua function takes some 8,000 values

local function items_stamp(end_ms)
  return string.format('quinque %d', end_ms)
end

local function items_end_of(list, key, value)
  local end_ms = tonumber(string.match(value, '^quinque (%d+)$'))
  if not end_ms then
    local left_ms = redis.call('PTTL', key)
    end_ms = list.now_ms + (left_ms < 0 and ITEMS_LOOK_MS or math.max(1, left_ms))
  end
  return end_ms > list.now_ms and end_ms
end

local function items_lease_ends(list, ids)
  local ends = {}
  for from = 1, #ids, ITEMS_TOGETHER_MOST do
    local to = math.min(from + ITEMS_TOGETHER_MOST - 1, #ids)
    local keys = {}
    for at = from, to do
      keys[#keys + 1], keys[#keys + 2] = list.lease .. ids[at], list.old_lease .. ids[at]
    end
    local values = redis.call('MGET', unpack(keys))
    for at = from, to do
      local new, old = 2 * (at - from) + 1, 2 * (at - from) + 2
      ends[at] = values[new] and items_end_of(list, keys[new], values[new])
      local old_ms = values[old] and items_end_of(list, keys[old], values[old])
      if old_ms and (not ends[at] or ends[at] < old_ms) then
        ends[at] = old_ms
      end
    end
  end
  return ends
end
