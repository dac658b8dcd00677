-- record(slot, at_ms, kind, reason, family, queue, group, claim, ids, count, sizes): that this became
-- of the messages is on record when the script has answered. `ids` is a list, or one that is packed;
-- then `count` says how many there are. `sizes` is either, of numbers, or nothing.
-- SAME AS model/lifecycle.py: Kind, Reason, Entry
--
-- record_close(): what the script had to record is in the slot's stream `record`, as one item whose
-- id is the number of its first row, or several if it is very much, unless it is only counted. If it
-- is counted the answer is a list, of each entry: kind, reason, family, queue, group, how many rows it
-- is.
--
-- include lib/slot_prefix.lua

local ADDED, DELIVERED, ACKED, RETURNED, DELAYED = 1, 2, 3, 4, 5
local EXPIRED, DEAD, REMOVED, HELD = 6, 7, 8, 9

local NONE, LAPSED, NACKED, ASKED, DELAY_OVER, REDRIVEN = 0, 1, 2, 3, 4, 5
local CLAIM_SETTLED, CLAIM_RELEASED, CLAIM_FORFEITED, CLAIM_SHRUNK = 6, 7, 8, 9
local DELETED, PURGED, NO_ACK, CLAIMED, STAGED = 10, 11, 12, 13, 14
local RECOVERED, RENAMED, SESSION_OVER, TTL_OVER = 15, 16, 17, 18

local never = string.sub(KEYS[2], -5)  -- keys.py:guarded_keys
local is_recording = never ~= 'quiet'  -- if only to be counted
local is_counting = never == 'count' or never == 'tally'
local recorded, recorded_slot = {}, nil  -- the fields of each entry, and how many rows it is
local ITEM_MOST = 4000  -- values of an item: a Lua function takes some 8,000

local function record(slot, at_ms, kind, reason, family, queue, group, claim, ids, count, sizes)
  if is_recording then
    -- A list has no nothing in it; and with a field less it would not be an entry.
    recorded[#recorded + 1] = {0, at_ms, kind, reason, tonumber(family), queue, group, claim, ids,
        sizes or cjson.null, count}
    recorded_slot = slot
  end
end

-- The entry, packed, and the number of the row after it.
local function record_packed(entry, number)
  local ids, sizes = entry[9], entry[10]
  local count = entry[11] or #ids
  entry[1], entry[11] = number, nil
  if type(ids) == 'table' then
    entry[9] = cmsgpack.pack(ids)
  end
  if type(sizes) == 'table' then
    entry[10] = cmsgpack.pack(sizes)
  end
  return cmsgpack.pack(entry), number + count
end

local function record_close()
  local rows, counted = 0, is_counting and {} or nil
  for at = 1, #recorded do
    local entry = recorded[at]
    local count = entry[11] or #entry[9]
    rows = rows + count
    if counted then
      for field = 3, 7 do
        counted[#counted + 1] = entry[field]
      end
      counted[#counted + 1] = count
    end
  end
  if rows == 0 then
    return nil
  elseif never == 'tally' then
    return counted
  end
  local stream = recorded_slot .. 'record'
  local number = redis.call('HINCRBY', recorded_slot .. 'slot', 'rows', rows) - rows + 1
  local id = string.format('%d-0', number)
  if #recorded == 1 then  -- as mostly
    redis.call('XADD', stream, id, 'entry', (record_packed(recorded[1], number)))
    return counted
  end
  local item = {}
  for _, entry in ipairs(recorded) do
    if #item == ITEM_MOST then
      redis.call('XADD', stream, id, unpack(item))
      id, item = string.format('%d-0', number), {}
    end
    local to = #item
    item[to + 1] = 'entry'
    item[to + 2], number = record_packed(entry, number)
  end
  redis.call('XADD', stream, id, unpack(item))
  return counted
end
