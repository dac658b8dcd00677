-- show.lua: messages of a slot as they are now.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  with_bodies      1 = their bodies are wanted
--          4.. id              of each message
-- RETURNS  for each id what lib/work_message_view.lua has, or nothing if it does not live
-- ERRORS   none
-- SAME AS  engine/work/views.py:message_view

-- include lib/argv_rest.lua
-- include lib/work_body.lua
-- include lib/work_find_messages.lua
-- include lib/work_message_view.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most, with_bodies = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'

local views = {}
for at, message in ipairs(work_find_messages(slot, argv_rest(4), now_ms, settle_most)) do
  local body = message and with_bodies and work_body(slot, message)
  views[at] = message and work_message_view(message, body or false)
end
return work_answer(views)
