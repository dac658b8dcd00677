-- scan_queues.lua: the worklists of a slot, some at a time, in the order they were made.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many of each kind in each
--          4  from             the number of the first
--          5  count            up to this many
--          6  least            only those with this many ready,
--          7  most             or fewer
--          8  skips_idle       1 if those in which nothing is ready, and nothing has happened for
--                              long, count as to go
-- RETURNS  the number to go on with, 0 at the end; how many were looked at; the names; those that
--          are to go unless a client waits on them
-- ERRORS   none
-- SAME AS  stores/embedded/work_looks.py:_scan_queues

-- include lib/work_find.lua
-- include lib/scan_from.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local from, count, least, most = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local skips_idle = ARGV[8] == '1'

local names, next_number = scan_from(slot .. 'worklists', from, count)
local found, idle = {}, {}
for _, name in ipairs(names) do
  if redis.call('HGET', slot .. 'queues', name) == family then
    local list = work_find(slot, name, family, now_ms, settle_most, nil)
    local length = redis.call('ZCARD', slot .. 'ready:' .. name)
    if list and least <= length and length <= most then
      local is_quiet = skips_idle and length == 0
          and list.active_ms + QUEUE_IDLE_MOST_MS <= now_ms and work_is_unset(slot, name)
      local names_of = (list.is_idle or is_quiet) and idle or found
      names_of[#names_of + 1] = name
    end
  end
end
return work_answer({next_number, #names, found, idle})
