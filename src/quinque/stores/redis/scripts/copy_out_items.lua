-- copy_out_items.lua: items of a queue, for a copy: those in `queue`, the first one first, then those
-- in `processing`.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  queue            its name
--          2  from             skip this many ids
--          3  count            up to this many
--          4  room_bytes       and no more once the data have this size
-- RETURNS  how many ids were looked at; id, state, when its lease ends (ms), data of each that has an
--          item
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:kept_in_worklist

-- include lib/answer.lua
-- include lib/items_open.lua

local list = items_open(slot_prefix(KEYS[1]), ARGV[1], 0)
local from, count, room_bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- 1 = it is over, or was never begun.
local function lease_end(id)
  local time, end_ms = redis.call('TIME'), 1
  for _, key in ipairs({list.lease .. id, list.old_lease .. id}) do
    local value = redis.call('GET', key)
    local stamp = value and tonumber(string.match(value, '^quinque (%d+)$'))
    if value and not stamp then
      stamp = time[1] * 1000 + math.max(0, redis.call('PTTL', key))
    end
    end_ms = math.max(end_ms, stamp or 0)
  end
  return end_ms
end

local rows, looked = {}, 0
local function read(key, skipped, state)
  local ids = redis.call('LRANGE', key, 0 - skipped - (count - looked), -1 - skipped)
  for at = #ids, 1, -1 do
    if room_bytes <= 0 then
      return
    end
    looked = looked + 1
    local data = redis.call('GET', list.item .. ids[at])
    if data then
      room_bytes = room_bytes - #data
      rows[#rows + 1] = {ids[at], state, state == 'leased' and lease_end(ids[at]) or 0, data}
    end
  end
end

local queued = redis.call('LLEN', list.queue)
if from < queued then
  read(list.queue, from, 'ready')
end
if looked < count and from + looked >= queued then
  read(list.processing, from + looked - queued, 'leased')
end
return answer({looked, rows})
