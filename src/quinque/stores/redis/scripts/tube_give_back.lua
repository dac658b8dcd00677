-- tube_give_back.lua: make tasks ready that an ended session has taken in tubes of a slot.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the tubes' family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many tasks of each tube
--          4  session          the session
--          5  ended_ms         tasks that it took later stay taken: it has begun again by then
--          6  most             up to this many tasks
-- RETURNS  1 if there are more, else 0
-- ERRORS   none
-- SAME AS  engine/tubes/sessions.py:ended

-- include lib/many.lua
-- include lib/tube_answer.lua
-- include lib/tube_find.lua
-- include lib/tube_give_back.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local session, ended_ms, most = ARGV[4], ARGV[5], tonumber(ARGV[6])

local held = slot .. 'taken_by:' .. session
local members = redis.call('ZRANGEBYSCORE', held, '-inf', ended_ms, 'LIMIT', 0, most)
local names, ids = {}, {}
for _, member in ipairs(members) do
  local id, name = string.match(member, '^(%d+):(.*)$')
  if not ids[name] then
    names[#names + 1], ids[name] = name, {}
  end
  table.insert(ids[name], id)
end
for _, name in ipairs(names) do
  local tube = tube_find(slot, name, family, now_ms, settle_most)
  if tube then
    tube_give_back(tube, ids[name], session)
  end
end
many('ZREM', held, members)
if redis.call('EXISTS', held) == 0 then
  redis.call('SREM', slot .. 'takers', session)
end
return tube_answer(#members == most and 1 or 0)
