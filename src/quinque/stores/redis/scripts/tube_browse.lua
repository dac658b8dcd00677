-- tube_browse.lua: the first tasks in a state: their ids.
--
-- KEYS     1  slot       HASH  the tube's slot
-- ARGV     1  family           code of the tube's family
--          2  now_ms           the broker's clock
--          3  queue            the tube
--          4  settle_most      first settle up to this many tasks
--          5  state            ready, delayed, leased or dead
--          6  count            up to this many
-- RETURNS  ids
-- ERRORS   WRONGTYPE           the name belongs to another family
--          NOTUBE              there is no such tube
-- SAME AS  engine/tubes/tube.py:browse

-- include lib/tube_answer.lua
-- include lib/tube_find.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local state, count = ARGV[5], tonumber(ARGV[6])

local tube = tube_find(slot, queue, family, now_ms, settle_most)
if tube == nil then
  return tube_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not tube then
  return tube_answer(redis.error_reply('NOTUBE there is none'))
end

local ids, is_there = {}, {}
local function add(id)
  if #ids < count and not is_there[id] then
    ids[#ids + 1], is_there[id] = id, true
  end
end

if state == 'leased' then
  -- Some at a time, because who asks for few does not want to wait for all.
  local cursor = '0'
  repeat
    local reply = redis.call('HSCAN', tube.taken, cursor, 'COUNT', count)
    cursor = reply[1]
    for at = 1, #reply[2], 2 do
      add(reply[2][at])
    end
  until #ids == count or cursor == '0'
else
  for _, id in ipairs(redis.call('ZRANGE', slot .. state .. ':' .. queue, 0, count - 1)) do
    add(id)
  end
  if state == 'ready' and tube.has_lanes and #ids < count then
    for _, member in ipairs(redis.call('ZRANGE', tube.lane_tasks, 0, count - 1)) do
      add(string.sub(member, -16))
    end
  end
end
return tube_answer(ids)
