-- items_keys.lua: items of a queue, whether they are in a list or not, some at a time.
--
-- KEYS     1  slot       HASH  the queue's slot; the keys of its server are looked at
-- ARGV     1  family           code of the queue's family
--          2  queue            its name
--          3  pattern          what the keys of its items match
--          4  cursor           where to go on; 0 = at the beginning
--          5  count            look at about this many keys
-- RETURNS  where to go on, 0 = it is the end; ids
-- ERRORS   none
-- SAME AS  nothing: an embedded store knows every item

-- include lib/answer.lua

local slot = slot_prefix(KEYS[1])
local family, queue, pattern, cursor, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local first = #queue + #':item:' + 1

-- Whether the key may be of a queue with a longer name: `a:item` may have items too, and those of
-- both begin with `a:item:`.
local function is_of_another(key)
  for _, kind in ipairs({':item:', ':lease:', ':leased_by_session:'}) do
    local at = string.find(key, kind, first - 1, true)
    while at do
      local name = string.sub(key, 1, at - 1)
      if redis.call('EXISTS', name .. ':queue', name .. ':processing') > 0 then
        return true
      end
      at = string.find(key, kind, at + 1, true)
    end
  end
  return false
end

if (redis.call('HGET', slot .. 'queues', queue) or family) ~= family then
  return answer({'0', {}})
end
local ids = {}
local found = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count, 'TYPE', 'string')
for _, key in ipairs(found[2]) do
  if not is_of_another(key) then
    ids[#ids + 1] = string.sub(key, first)
  end
end
return answer({found[1], ids})
