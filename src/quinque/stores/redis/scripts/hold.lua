-- hold.lua: lease ready messages of a slot without a consumer.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  jitter_ms        leases run this much longer than was asked for
--          4  follows          1 = the broker's clock follows that of Redis
--          5.. id              of each message, none twice
-- RETURNS  for each id 1 if it was leased, else 0
-- ERRORS   none
-- SAME AS  engine/work/decide.py:hold

-- include lib/argv_rest.lua
-- include lib/late_ms.lua
-- include lib/work_find_messages.lua
-- include lib/work_lease_end.lua
-- include lib/work_record.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most, jitter_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
jitter_ms = jitter_ms + late_ms(now_ms, ARGV[4])

local done = {}
for at, message in ipairs(work_find_messages(slot, argv_rest(5), now_ms, settle_most)) do
  done[at] = 0
  if message and message.state == 'ready' then
    done[at] = 1
    work_leave(message)
    work_enter(message, 'leased', work_lease_end(message.terms.retry_ms, now_ms, jitter_ms))
    work_note(message, HELD, NONE)
  end
end
return work_answer(done)
