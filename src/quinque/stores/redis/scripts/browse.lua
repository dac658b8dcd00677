-- browse.lua: the first messages of a state in a worklist, or the last ones, last first.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = somebody waits on it, so that it stays
--          5  settle_most      settle so many of each kind first
--          6  state            ready, delayed or dead
--          7  count            so many at most; negative = the last ones
--          8  room_bytes       and no more once the bodies are so large
-- RETURNS  what lib/work_message_view.lua has of each
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/views.py:browse

-- include lib/work_body.lua
-- include lib/work_find.lua
-- include lib/work_is_over.lua
-- include lib/work_load.lua
-- include lib/work_message_view.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, state, count, room_bytes = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local ids = {}
if list and count ~= 0 then
  local command = count > 0 and 'ZRANGE' or 'ZREVRANGE'
  ids = redis.call(command, slot .. state .. ':' .. queue, 0, math.abs(count) - 1)
end
local views = {}
for _, message in ipairs(work_load(slot, ids, now_ms)) do
  if not work_is_over(message, now_ms) and room_bytes > 0 then
    local body = work_body(slot, message)
    views[#views + 1] = work_message_view(message, body)
    room_bytes = room_bytes - #body
  end
end
return work_answer(views)
