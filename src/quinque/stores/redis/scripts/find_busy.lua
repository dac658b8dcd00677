-- find_busy.lua: the worklists of a slot that have something ready.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the worklists' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many of each kind in each
--          4  most             settle in up to this many worklists
-- RETURNS  name, when its turn comes (µs), name, when, ...
-- ERRORS   none
-- SAME AS  stores/embedded/worklists.py:settle_alarms

-- include lib/work_settle.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most, most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

for _, name in ipairs(redis.call('ZRANGEBYSCORE', slot .. 'alarms', '-inf', now_ms,
    'LIMIT', 0, most)) do
  if redis.call('HGET', slot .. 'queues', name) == family then
    work_settle(work_open(slot, name, now_ms), settle_most)
  end
end
work_close()
local found = {}
local rows = redis.call('ZRANGE', slot .. 'busy', 0, -1, 'WITHSCORES')
for at = 1, #rows, 2 do
  local name = rows[at]
  if redis.call('ZCARD', slot .. 'ready:' .. name) == 0 then
    redis.call('ZREM', slot .. 'busy', name)
  elseif redis.call('HGET', slot .. 'queues', name) == family then
    found[#found + 1] = name
    found[#found + 1] = tonumber(rows[at + 1])
  end
end
return work_answer(found)
