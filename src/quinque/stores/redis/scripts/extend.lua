-- extend.lua: let the lease of a message begin anew; a ready one is leased.
--
-- KEYS     1  slot       HASH  the message's slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      settle so many of each kind first
--          3  jitter_ms        the lease runs so much longer than was asked for
--          4  id               of the message
-- RETURNS  how long a lease runs, ms
-- ERRORS   NOJOB               it does not live
--          TOOLATE             half of its life is over
-- SAME AS  engine/work/decide.py:extend

-- include lib/work_find_message.lua
-- include lib/work_lease_end.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most, jitter_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local id = ARGV[4]

local message = work_find_message(slot, id, now_ms, settle_most)
if not message or message.state == 'dead' then
  return work_answer(redis.error_reply('NOJOB ' .. id))
end
local began_ms = message.expires_ms - message.ttl_ms
if 2 * (now_ms - began_ms) > message.ttl_ms then
  return work_answer(redis.error_reply('TOOLATE ' .. id))
end
if message.retry_ms > 0 or message.state == 'ready' then
  work_leave(message)
  work_enter(message, 'leased', work_lease_end(message.retry_ms, now_ms, jitter_ms))
end
return work_answer(message.retry_ms)
