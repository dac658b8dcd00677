-- finish.lua: messages of a slot are gone, whatever their state.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      settle so many of each kind first
--          3.. id              of each message, none twice
-- RETURNS  for each id 1 if the message was there, else 0
-- ERRORS   none
-- SAME AS  engine/work/decide.py:finish

-- include lib/work_find_message.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]

local done = {}
for at = 3, #ARGV do
  local message = work_find_message(slot, ARGV[at], now_ms, settle_most)
  done[at - 2] = message and 1 or 0
  if message then
    work_remove(message)
  end
end
return work_answer(done)
