-- purge_all.lua: the worklists of a family in a slot are gone; a part of them, if there is very
-- much in them. A worklist that is made meanwhile stays: so there is an end, though one of which
-- messages are claimed is there again, as a new one.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the family
--          2  now_ms           the broker's clock
--          3  most             remove up to this many messages and worklists
--          4  from             number of the worklist to go on with, as the call before answered; 0 =
--                              it is the first
--          5  last             number of the last worklist to remove, as the call before answered
-- RETURNS  how many living messages went, the worklist to go on with (0 = that was all), the last one
-- ERRORS   none
-- SAME AS  stores/embedded/work_operations.py:_purge_all

-- include lib/work_purge.lua
-- include lib/work_reset.lua
-- include lib/work_answer.lua

local LIST_COST = 10  -- of a worklist, compared with a message

local slot = slot_prefix(KEYS[1])
local family, now_ms, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local from, last = tonumber(ARGV[4]), tonumber(ARGV[5])
if from == 0 then
  last = tonumber(redis.call('HGET', slot .. 'slot', 'last_number') or 0)
end

local rows = redis.call('ZRANGEBYSCORE', slot .. 'worklists', from, last, 'WITHSCORES',
    'LIMIT', 0, most)
local next_number = #rows == 2 * most and tonumber(rows[#rows]) + 1 or 0
local living, looked = 0, 0
for at = 1, #rows, 2 do
  local name = rows[at]
  if redis.call('HGET', slot .. 'queues', name) == family then
    local list = work_open(slot, name, now_ms)
    for _, state in ipairs({'delayed', 'leased', 'ready', 'dead'}) do
      local some, more = work_purge(list, state, most - looked, 0)
      living, looked = living + some, looked + more
    end
    looked = looked + LIST_COST
    if looked >= most then
      next_number = tonumber(rows[at + 1])
      break
    end
    opened[slot .. name] = nil
    work_reset(slot, name, family, now_ms)
    keep_time(slot, now_ms)
  end
end
return work_answer({living, next_number, last})
