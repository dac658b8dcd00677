-- scan_messages.lua: the messages of a slot, some at a time, in the order they were added.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the family of their worklists
--          2  now_ms           the broker's clock
--          3  settle_most      settle so many of each kind first
--          4  from             the number of the first
--          5  count            so many at most
--          6  with_bodies      1 = their bodies are wanted
--          7  in_queue         1 = only those of one worklist
--          8  queue            that worklist
--          9.. state           only those of these states; none = of all
-- RETURNS  the number to go on with, 0 at the end; how many were looked at; what
--          lib/work_message_view.lua has of each
-- ERRORS   none
-- SAME AS  stores/embedded/work_looks.py:_scan_messages

-- include lib/work_find_message.lua
-- include lib/work_message_view.lua
-- include lib/scan_from.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local from, count, with_bodies = ARGV[4], ARGV[5], ARGV[6] == '1'
local in_queue, queue = ARGV[7] == '1', ARGV[8]

local states = {}
for at = 9, #ARGV do
  states[ARGV[at]] = true
end

local function is_wanted(message)
  local name = message.list.name
  return (#ARGV == 8 or states[message.state]) and (not in_queue or name == queue)
      and redis.call('HGET', slot .. 'queues', name) == family
end

local ids, next_number = scan_from(slot .. 'messages', from, count)
local views = {}
for _, id in ipairs(ids) do
  local message = work_find_message(slot, id, now_ms, settle_most)
  if message and is_wanted(message) then
    local body = with_bodies and redis.call('HGET', slot .. 'message:' .. id, 'body')
    views[#views + 1] = work_message_view(message, body)
  end
end
return work_answer({next_number, #ids, views})
