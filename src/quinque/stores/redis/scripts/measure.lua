-- measure.lua: how much is in the queues of a slot, some of them at a time. Nothing is settled first.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  cursor           where to go on, 0 = at the beginning
--          2  count            about this many queues
-- RETURNS  the cursor to go on with, 0 at the end; and of each queue a list: name, code of its family,
--          ready, leased, delayed, dead, claimed, kept; since when the next one is in its place (ms),
--          -1 = no message, or unknown; how many groups it has. The numbers of a feed are those for a
--          new group: measure_groups.lua has the others
-- ERRORS   none
-- SAME AS  stores/embedded/measures.py: _of_worklist, _of_feed

-- include lib/answer.lua
-- include lib/feed_keys.lua
-- include lib/first_place_ms.lua

local slot, cursor, count = slot_prefix(KEYS[1]), ARGV[1], ARGV[2]

local function length_of(list)
  local length = redis.pcall('LLEN', list)
  return type(length) == 'number' and length or 0
end

local function of_feed(name)
  local feed = feed_keys(slot, name)
  local kept = redis.call('ZCARD', feed.order)
  return {name, 1, kept, 0, 0, 0, 0, kept,
      first_place_ms('ZRANGE', feed.order, 0, 0, 'WITHSCORES'), redis.call('HLEN', feed.groups)}
end

local function of_items(name)
  local ready, leased = length_of(name .. ':queue'), length_of(name .. ':processing')
  return {name, 4, ready, leased, 0, 0, 0, ready + leased, -1, 0}
end

local function of_tube(name)
  local delayed = redis.call('ZCARD', slot .. 'delayed:' .. name)
  local dead = redis.call('ZCARD', slot .. 'dead:' .. name)
  local taken = redis.call('HLEN', slot .. 'taken:' .. name)
  local kept = redis.call('HLEN', slot .. 'tasks:' .. name)
  local id = redis.call('ZRANGE', slot .. 'ready:' .. name, 0, 0)[1]
  local text = id and redis.call('HGET', slot .. 'tasks:' .. name, id)
  local first_ms = tonumber(text and string.match(text, '^%d+') or -1)  -- lib/tube_load.lua
  return {name, 5, kept - taken - delayed - dead, taken, delayed, dead, 0, kept, first_ms, 0}
end

local function of_worklist(name, family)
  local ready = redis.call('ZCARD', slot .. 'ready:' .. name)
  local delayed = redis.call('ZCARD', slot .. 'delayed:' .. name)
  local dead = redis.call('ZCARD', slot .. 'dead:' .. name)
  local leased = redis.call('ZCARD', slot .. 'due:' .. name) - delayed
  local claimed = tonumber(redis.call('HGET', slot .. 'worklist:' .. name, 'claimed') or 0)
  return {name, tonumber(family), ready, leased, delayed, dead, claimed,
      ready + delayed + leased + dead + claimed,
      first_place_ms('ZRANGE', slot .. 'ready:' .. name, 0, 0, 'WITHSCORES'), 0}
end

local scan = redis.call('HSCAN', slot .. 'queues', cursor, 'COUNT', count)
local rows = {}
for at = 1, #scan[2], 2 do
  local name, family = scan[2][at], scan[2][at + 1]
  if family == '1' then
    rows[#rows + 1] = of_feed(name)
  elseif family == '4' then
    rows[#rows + 1] = of_items(name)
  elseif family == '5' then
    rows[#rows + 1] = of_tube(name)
  else
    rows[#rows + 1] = of_worklist(name, family)
  end
end
return answer({scan[1], rows})
