-- find_queues.lua: where messages of a slot are, and in which state.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  awaited_ms       for this time, ends in this slot are published; 0 = no client waits
--          4.. id              of each message
-- RETURNS  for each id its queue and its state, or nothing twice if it does not live
-- ERRORS   none
-- SAME AS  stores/embedded/work_looks.py:_find_queues, _await_end

-- include lib/argv_rest.lua
-- include lib/claim_holds.lua
-- include lib/work_find_messages.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most, awaited_ms = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local found, missing = {}, {}
local ids = argv_rest(4)
if awaited_ms ~= '0' then
  redis.call('SET', slot .. 'awaited', '', 'PX', awaited_ms)
end
for at, message in ipairs(work_find_messages(slot, ids, now_ms, settle_most)) do
  found[2 * at - 1] = message and message.list.name
  found[2 * at] = message and message.state
  if not message and awaited_ms ~= '0' then
    missing[#missing + 1] = ids[at]
  end
end
local held = claim_holds(slot, missing)
for at, id in ipairs(ids) do
  if held[id] then
    found[2 * at] = 'leased'  -- to a claim: it has not ended
  end
end
return work_answer(found)
