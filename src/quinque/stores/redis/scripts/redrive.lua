-- redrive.lua: dead messages of a slot are ready, as if they were new.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      settle so many of each kind first
--          3.. id              of each message, none twice
-- RETURNS  how many
-- ERRORS   none
-- SAME AS  engine/work/decide.py:redrive

-- include lib/work_find_message.lua
-- include lib/work_redrive.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]

local count = 0
for at = 3, #ARGV do
  local message = work_find_message(slot, ARGV[at], now_ms, settle_most)
  if message and message.state == 'dead' then
    work_redrive(message)
    count = count + 1
  end
end
return work_answer(count)
