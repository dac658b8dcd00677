-- claim_mark.lua: when a claim is settled, this becomes of messages of it, in place of an ack.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     whose claim it is
--          4  number           of the claim
--          5  outcome          model/claim_ops.py:Outcome
--          6  delay_ms         until they are ready again
--          7  reason           why they are given back, or dead
--          8  settle_most      settle so many of each kind first
--          9.. id              of each message
-- RETURNS  how many of them the claim has
-- ERRORS   NOCLAIM             it is not open
-- SAME AS  engine/claims/decide.py:mark

-- include lib/claim_load.lua
-- include lib/claim_find.lua
-- include lib/keep_time.lua
-- include lib/many.lua
-- include lib/work_answer.lua

local slot, now_ms, number = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[4])
local outcome, delay_ms, reason = ARGV[5], ARGV[6], ARGV[7]
local settle_most = tonumber(ARGV[8])
local OUTCOME_ACK, FEW = '0', 10

local subscription = claim_find(slot, ARGV[2], ARGV[3], now_ms, settle_most)
local claim = subscription and claim_load(subscription, number)
if not claim then
  return work_answer(redis.error_reply('NOCLAIM does not exist'))
elseif claim.state ~= CLAIM_FILLING and claim.state ~= CLAIM_SEALED then
  return work_answer(redis.error_reply('NOCLAIM is not open'))
end

local wanted, left = {}, 0
for at = 9, #ARGV do
  left = left + (wanted[ARGV[at]] and 0 or 1)
  wanted[ARGV[at]] = true
end

-- To look for a few ids takes less than half of the time that it takes to unpack them all.
local function may_have(packed_ids)
  local is_there = left > FEW
  for id in pairs(left > FEW and {} or wanted) do
    is_there = is_there or string.find(packed_ids, id, 1, true) ~= nil
  end
  return is_there
end

local found, marked = {}, {}
for chunk = 0, claim.chunks - 1 do
  if left == #found then
    break
  end
  local text = string.format('%d %s %s ', chunk, outcome, delay_ms) .. reason
  local packed_ids = redis.call('LINDEX', claim.ids, chunk)
  for _, id in ipairs(may_have(packed_ids) and cmsgpack.unpack(packed_ids) or {}) do
    if wanted[id] then
      found[#found + 1] = id
      marked[#marked + 1], marked[#marked + 2] = id, text
    end
  end
end
if outcome == OUTCOME_ACK then
  many('HDEL', claim.marks, found)
else
  many('HSET', claim.marks, marked)
end
keep_time(slot, now_ms)
return work_answer(#found)
