-- items_extend.lua: let leases that still run end lease_ms from now.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  lease_ms         how long they run from now
--          7  follows          1 = the broker's clock follows that of Redis
--          8  deadline_ms      only leases that end then; 0 = all
--          9.. id              of each item, none twice
-- RETURNS  for each id 1 if its lease was set, else 0
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:ExtendLeases

-- include lib/argv_rest.lua
-- include lib/items_find.lua
-- include lib/items_hold.lua
-- include lib/items_lease_ends.lua
-- include lib/work_record.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, lease_ms, follows = ARGV[5], tonumber(ARGV[6]), ARGV[7]
local deadline_ms = tonumber(ARGV[8])

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local ids, done, held = argv_rest(9), {}, {}
local ends = list and items_lease_ends(list, ids)
for at, id in ipairs(ids) do
  done[at] = 0
  if ends and ends[at] and (deadline_ms == 0 or ends[at] == deadline_ms)
      and redis.call('EXISTS', list.item .. id) == 1 then
    done[at] = 1
    held[#held + 1] = id
  end
end
if #held > 0 then
  items_hold(list, held, lease_ms, follows)
  work_record(list, HELD, NONE, held)
  list.active_ms = now_ms
end
return items_answer(done)
