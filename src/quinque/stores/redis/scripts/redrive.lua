-- redrive.lua: dead messages of a slot are ready, as if they were new.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3.. id              of each message, none twice
-- RETURNS  how many
-- ERRORS   none
-- SAME AS  engine/work/decide.py:redrive

-- include lib/argv_rest.lua
-- include lib/work_find_messages.lua
-- include lib/work_redrive.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]

local count = 0
for _, message in ipairs(work_find_messages(slot, argv_rest(3), now_ms, settle_most)) do
  if message and message.state == 'dead' then
    work_redrive(message)
    count = count + 1
  end
end
return work_answer(count)
