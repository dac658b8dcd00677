-- extend.lua: restart the lease of a message; a ready one is leased.
--
-- KEYS     1  slot       HASH  the message's slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  jitter_ms        the lease runs this much longer than was asked for
--          4  follows          1 = the broker's clock follows that of Redis
--          5  id               of the message
--          6  anytime          1 = also when half of its life is over
-- RETURNS  how long a lease runs, ms
-- ERRORS   NOJOB               it does not live
--          TOOLATE             half of its life is over
-- SAME AS  engine/work/decide.py:extend

-- include lib/late_ms.lua
-- include lib/work_find_messages.lua
-- include lib/work_lease_end.lua
-- include lib/work_record.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most, jitter_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local id, is_anytime = ARGV[5], ARGV[6] == '1'
jitter_ms = jitter_ms + late_ms(now_ms, ARGV[4])

local message = work_find_messages(slot, {id}, now_ms, settle_most)[1]
if not message or message.state == 'dead' then
  return work_answer(redis.error_reply('NOJOB ' .. id))
end
local ttl_ms, retry_ms = message.terms.ttl_ms, message.terms.retry_ms
local began_ms = message.expires_ms - ttl_ms
if not is_anytime and 2 * (now_ms - began_ms) > ttl_ms then
  return work_answer(redis.error_reply('TOOLATE ' .. id))
end
if retry_ms > 0 or message.state == 'ready' then
  work_leave(message)
  work_enter(message, 'leased', work_lease_end(retry_ms, now_ms, jitter_ms))
  work_note(message, HELD, NONE)
end
return work_answer(retry_ms)
