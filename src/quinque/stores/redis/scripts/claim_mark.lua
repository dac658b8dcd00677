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
--          8  settle_most      first settle up to this many of each kind
--          9  chunk            the first that is looked through
--         10  epoch            the caller's; 0 = any
--         11.. id              of each message, none twice
-- RETURNS  how many of them the chunks have that were looked through; the chunk to go on with, 0 if
--          there is none
-- ERRORS   NOCLAIM             it is not open
--          SUPERSEDED          another client opened the subscription since
-- SAME AS  engine/claims/decide.py:mark

-- include lib/argv_rest.lua
-- include lib/claim_load.lua
-- include lib/claim_find.lua
-- include lib/keep_time.lua
-- include lib/many.lua
-- include lib/work_answer.lua

local slot, now_ms, number = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[4])
local outcome, delay_ms, reason = ARGV[5], ARGV[6], ARGV[7]
local settle_most = tonumber(ARGV[8])
local first, wanted_ids = tonumber(ARGV[9]), argv_rest(11)
local OUTCOME_ACK, FEW = '0', 10
local IDS_MOST = 20000  -- looked through by one call: some 10 ms

local subscription = claim_find(slot, ARGV[2], ARGV[3], now_ms, settle_most)
local claim = subscription and claim_load(subscription, number)
if subscription and ARGV[10] ~= '0' and tonumber(ARGV[10]) ~= subscription.epoch then
  return work_answer(redis.error_reply('SUPERSEDED ' .. subscription.epoch))
elseif not claim then
  return work_answer(redis.error_reply('NOCLAIM does not exist'))
elseif claim.state ~= CLAIM_FILLING and claim.state ~= CLAIM_SEALED then
  return work_answer(redis.error_reply('NOCLAIM is not open'))
end

local wanted = {}
for _, id in ipairs(wanted_ids) do
  wanted[id] = true
end

-- To look for a few ids takes less than half of the time that it takes to unpack them all.
local function may_have(packed_ids)
  local is_there = #wanted_ids > FEW
  for id in pairs(is_there and {} or wanted) do
    is_there = is_there or string.find(packed_ids, id, 1, true) ~= nil
  end
  return is_there
end

local found, marked, looked, chunk = {}, {}, 0, first
while chunk < claim.chunks and looked < IDS_MOST and #found < #wanted_ids do
  local text = string.format('%d %s %s ', chunk, outcome, delay_ms) .. reason
  local packed_ids = redis.call('LINDEX', claim.ids, chunk)
  for _, id in ipairs(may_have(packed_ids) and cmsgpack.unpack(packed_ids) or {}) do
    if wanted[id] then
      found[#found + 1] = id
      marked[#marked + 1], marked[#marked + 2] = id, text
    end
  end
  looked, chunk = looked + claim_count(packed_ids), chunk + 1
end
if outcome == OUTCOME_ACK then
  many('HDEL', claim.marks, found)
else
  many('HSET', claim.marks, marked)
end
keep_time(slot, now_ms)
return work_answer({#found, chunk < claim.chunks and chunk or 0})
