-- claim_read.lua: chunks of a claim.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  queue            its name
--          2  subscription     whose claim it is
--          3  number           of the claim
--          4  chunk            from this one on, counted from 0
--          5  count            up to this many
--          6  room_bytes       and no more once they have this size
--          7  now_ms           the broker's clock
--          8  settle_most      first settle up to this many of each kind
-- RETURNS  packed rows of each
-- ERRORS   NOCLAIM             it is not there, or cannot be read
-- SAME AS  engine/claims/decide.py:claim_to_read

-- include lib/claim_find.lua
-- include lib/claim_load.lua
-- include lib/work_answer.lua

local number, chunk = tonumber(ARGV[3]), tonumber(ARGV[4])
local count, room_bytes, now_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local subscription = claim_find(slot_prefix(KEYS[1]), ARGV[1], ARGV[2], now_ms, tonumber(ARGV[8]))
local claim = subscription and claim_load(subscription, number)
if not claim then
  return work_answer(redis.error_reply('NOCLAIM does not exist'))
elseif claim.state == CLAIM_FILLING then
  return work_answer(redis.error_reply('NOCLAIM is not sealed'))
elseif claim.state == CLAIM_IS_FORFEITED then
  return work_answer(redis.error_reply('NOCLAIM was released: its messages returned to the queue'))
end

local chunks = {}
for at = chunk, math.min(chunk + count, claim.chunks) - 1 do
  if room_bytes > 0 then
    chunks[#chunks + 1] = redis.call('LINDEX', claim.rows, at)
    room_bytes = room_bytes - #chunks[#chunks]
  end
end
return work_answer(chunks)
