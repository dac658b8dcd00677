-- leased_places.lua: places of leased messages of a worklist, or of a part of them.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  queue            the worklist
--          2  from             from this index on, in the order in which leases and delays end
--          3  count            look at this many
--          4  step             how far apart: 1 = each, 2 = every second one, and so on
-- RETURNS  id, place, id, place, ...; and 1 if there are no more
-- ERRORS   none
-- SAME AS  model/look_ops.py:BrowsePlaces

-- include lib/answer.lua
-- include lib/many.lua
-- include lib/work_kept.lua

local slot, queue = slot_prefix(KEYS[1]), ARGV[1]
local from, count, step = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local ids = {}
if step == 1 then
  ids = redis.call('ZRANGE', slot .. 'due:' .. queue, from, from + count - 1)
else
  for at = 1, count do
    ids[at] = redis.call('ZRANGE', slot .. 'due:' .. queue, from + at * step - 1,
        from + at * step - 1)[1]
  end
end
local kept = many('HMGET', slot .. 'messages', ids)
local found = {}
for at, place in ipairs(many('ZMSCORE', slot .. 'delayed:' .. queue, ids)) do
  if not place and kept[at] then
    found[#found + 1] = ids[at]
    found[#found + 1] = tonumber((work_unkept(kept[at])))
  end
end
return answer({found, #ids < count and 1 or 0})
