-- tube_make.lua: there is a tube of that name.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  is_idempotent    1 = one that is there stays as it is
--          5  stamp_us         its own among all tubes, if that is later than all places of the slot
--          6.. field, value    its kind and its settings
-- RETURNS  1 if it is new, else 0
-- ERRORS   WRONGTYPE           the name belongs to another family
--          EXISTS              there is a tube of that name
-- SAME AS  model/tube_ops.py:MakeTube

-- include lib/argv_rest.lua
-- include lib/find_queue.lua
-- include lib/keep_time.lua
-- include lib/many.lua
-- include lib/answer.lua
-- include lib/slot_begin.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_idempotent = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'

local found = find_queue(slot, queue, family, now_ms)
if found == nil then
  return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif found and not is_idempotent then
  return answer(redis.error_reply('EXISTS already'))
elseif found then
  return answer(0)
end
slot_begin(slot)
redis.call('HSET', slot .. 'queues', queue, family)
redis.call('ZADD', slot .. 'worklists',
    redis.call('HINCRBY', slot .. 'slot', 'last_number', 1), queue)
-- Later than all that was made before, even if the broker was not there then.
local last_place = tonumber(redis.call('HGET', KEYS[1], 'last_place') or 0)
local order = string.format('%d', math.max(tonumber(ARGV[5]), last_place + 1))
redis.call('HSET', KEYS[1], 'has_tubes', 1, 'last_place', order)
redis.call('HSET', slot .. 'worklist:' .. queue, 'family', family, 'since_ms', ARGV[2],
    'order', order)
many('HSET', slot .. 'worklist:' .. queue, argv_rest(6))
keep_time(slot, now_ms)
return answer(1)
