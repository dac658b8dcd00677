-- tube_return.lua: make taken tasks of a tube ready, of all sessions.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  most             about this many
-- RETURNS  how many; how many are taken still
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  model/tube_ops.py:ReturnTasks

-- include lib/hash_some.lua
-- include lib/tube_answer.lua
-- include lib/tube_find.lua
-- include lib/tube_give_back.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local most = ARGV[5]

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end
local found, ids = hash_some(tube.taken, most), {}
for at = 1, #found, 2 do
  ids[#ids + 1] = found[at]
end
table.sort(ids)
local count = tube_give_back(tube, ids)
return tube_answer({count, redis.call('HLEN', tube.taken)})
