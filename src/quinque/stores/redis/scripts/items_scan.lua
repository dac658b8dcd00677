-- items_scan.lua: the queues of items of a slot, some at a time, in the order they were entered.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the queues' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many leases in each
--          4  from             the number of the first
--          5  count            up to this many
--          6  least            only those with this many ready,
--          7  most             or fewer
-- RETURNS  the number to go on with, 0 at the end; how many were looked at; the names; those that
--          are to go unless a client waits on them
-- ERRORS   none
-- SAME AS  stores/embedded/work_looks.py:_scan_queues

-- include lib/items_find.lua
-- include lib/scan_from.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local from, count, least, most = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])

local names, next_number = scan_from(slot .. 'worklists', from, count)
local found, idle = {}, {}
for _, name in ipairs(names) do
  if redis.call('HGET', slot .. 'queues', name) == family then
    local list = items_find(slot, name, family, now_ms, settle_most, nil)
    local length = list and redis.call('LLEN', list.queue)
    if length and least <= length and length <= most then
      local names_of = list.is_idle and idle or found
      names_of[#names_of + 1] = name
    end
  end
end
return items_answer({next_number, #names, found, idle})
