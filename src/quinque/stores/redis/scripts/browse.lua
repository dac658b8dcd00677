-- browse.lua: the first messages of a state in a worklist, or the last ones, last first.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  state            ready, delayed or dead
--          7  count            up to this many; negative = the last ones
--          8  room_bytes       and no more once the bodies have this size
--          9  after            only those that come after this place; '' = all
-- RETURNS  what lib/work_message_view.lua has of each; the place of the last that was looked at, nothing
--          if there are no more
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/views.py:browse

-- include lib/work_body.lua
-- include lib/work_find.lua
-- include lib/work_is_over.lua
-- include lib/work_load_listed.lua
-- include lib/work_message_view.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, state, count, room_bytes = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local after = ARGV[9]

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local ids, last = {}, false
if list and count ~= 0 then
  local command = count > 0 and 'ZRANGEBYSCORE' or 'ZREVRANGEBYSCORE'
  local from = after ~= '' and '(' .. after or count > 0 and '-inf' or '+inf'
  local rows = redis.call(command, slot .. state .. ':' .. queue, from, count > 0 and '+inf' or '-inf',
      'WITHSCORES', 'LIMIT', 0, math.abs(count))
  for at = 1, #rows, 2 do
    ids[#ids + 1] = rows[at]
  end
  last = #ids == math.abs(count) and rows[#rows]
end
local views = {}
for _, message in ipairs(list and work_load_listed(list, ids) or {}) do
  if not work_is_over(message, now_ms) and room_bytes > 0 then
    local body = work_body(slot, message)
    views[#views + 1] = work_message_view(message, body)
    room_bytes = room_bytes - #body
  end
end
return work_answer({views, last})
