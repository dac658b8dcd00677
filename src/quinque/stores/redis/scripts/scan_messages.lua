-- scan_messages.lua: the messages of a slot, some at a time; those in the order they were added.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the family of their worklists
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many of each kind
--          4  from             where to go on; 0 = at the beginning
--          5  count            look at about this many
--          6  with_bodies      1 = their bodies are wanted
--          7  in_queue         1 = only those of one worklist
--          8  queue            that worklist
--          9.. state           only those of these states; none = of all
-- RETURNS  where to go on, 0 = it is the end; how many were looked at; what
--          lib/work_message_view.lua has of each
-- ERRORS   none
-- SAME AS  stores/embedded/work_looks.py:_scan_messages

-- include lib/work_body.lua
-- include lib/work_find_messages.lua
-- include lib/work_message_view.lua
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

local found, ids = redis.call('HSCAN', slot .. 'messages', from, 'COUNT', count), {}
for at = 1, #found[2], 2 do
  ids[#ids + 1] = found[2][at]
end
local messages = work_find_messages(slot, ids, now_ms, settle_most)
table.sort(messages, function(one, other)
  return one and (not other or tonumber(one.place) < tonumber(other.place))
end)
local views = {}
for _, message in ipairs(messages) do
  if message and is_wanted(message) then
    local body = with_bodies and work_body(slot, message)
    views[#views + 1] = work_message_view(message, body)
  end
end
return work_answer({tonumber(found[1]), #ids, views})
