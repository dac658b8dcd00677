-- purge_all.lua: the worklists of a family in a slot are gone; a part of them, if there is very
-- much in them.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the family
--          2  now_ms           the broker's clock
--          3  most             remove up to this many messages and worklists
-- RETURNS  how many living messages went, 1 if there are more to remove
-- ERRORS   none
-- SAME AS  stores/embedded/work_operations.py:_purge_all

-- include lib/work_purge.lua
-- include lib/work_reset.lua
-- include lib/work_answer.lua

local LIST_COST = 10  -- of a worklist, compared with a message

local slot = slot_prefix(KEYS[1])
local family, now_ms, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local living, looked = 0, 0
for _, name in ipairs(redis.call('ZRANGE', slot .. 'worklists', 0, most - 1)) do
  if redis.call('HGET', slot .. 'queues', name) == family then
    local list = work_open(slot, name, now_ms)
    for _, state in ipairs({'delayed', 'leased', 'ready', 'dead'}) do
      local some, more = work_purge(list, state, most - looked, 0)
      living, looked = living + some, looked + more
    end
    looked = looked + LIST_COST
    if looked >= most then
      break
    end
    opened[slot .. name] = nil
    work_reset(slot, name, family, now_ms)
    keep_time(slot, now_ms)
  end
end
return work_answer({living, looked >= most and 1 or 0})
