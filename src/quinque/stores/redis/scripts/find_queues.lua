-- find_queues.lua: where messages of a slot are, and in which state.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      settle so many of each kind first
--          3.. id              of each message
-- RETURNS  for each id its queue and its state, or nothing twice if it does not live
-- ERRORS   none
-- SAME AS  stores/embedded/work_looks.py:_find_queues, _await_end

-- include lib/work_find_message.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]

local found = {}
for at = 3, #ARGV do
  local message = work_find_message(slot, ARGV[at], now_ms, settle_most)
  found[2 * at - 5] = message and message.list.name or false
  found[2 * at - 4] = message and message.state or false
end
return work_answer(found)
