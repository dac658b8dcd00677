-- copy_in_chunk.lua: a chunk of a claim of a subscription, which is there, is in it.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  queue            its name
--          2  subscription     whose claim it is
--          3  number           of the claim
--          4  chunk            of the claim; those before it are there
--          5  rows             packed as scripts read them
--          6  ids              of the messages, packed likewise
--          7  messages         how many
--          8  body_bytes       how large their bodies are
--          9  most_place       the latest place of them
--         10  keys             how many of them live under a key
--         11.. key, id         of each of those; then id, mark of each that is marked
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  engine/claims/apply.py:apply_chunk_kept

-- include lib/answer.lua
-- include lib/claim_load.lua
-- include lib/claim_subscription.lua

local slot, queue = slot_prefix(KEYS[1]), ARGV[1]
local subscription = claim_subscription(slot, queue, ARGV[2])
local claim = claim_load(subscription, tonumber(ARGV[3]))
if claim.chunks > tonumber(ARGV[4]) then
  return answer(false)  -- it came before
end

local is_open = claim.state == CLAIM_FILLING or claim.state == CLAIM_SEALED
local first_mark = 11 + 2 * tonumber(ARGV[10])
redis.call('RPUSH', claim.rows, ARGV[5])
claim.chunks = claim.chunks + 1
claim.messages = claim.messages + tonumber(ARGV[7])
claim.body_bytes = claim.body_bytes + tonumber(ARGV[8])
claim.most_place = math.max(claim.most_place, tonumber(ARGV[9]))
claim.applied = is_open and 0 or claim.chunks
if is_open then
  redis.call('RPUSH', claim.ids, ARGV[6])
  for at = 11, first_mark - 1, 2 do
    redis.call('HSET', claim.keys, ARGV[at], ARGV[at + 1])
    redis.call('HSETNX', slot .. 'keys:' .. queue, ARGV[at], ARGV[at + 1])
  end
  for at = first_mark, #ARGV, 2 do
    redis.call('HSET', claim.marks, ARGV[at], ARGV[at + 1])
  end
  if subscription.is_worklist
      and redis.call('HGET', slot .. 'queues', queue) == subscription.family then
    redis.call('HINCRBY', slot .. 'worklist:' .. queue, 'claimed', ARGV[7])
  end
end
claim_keep(claim)
return answer(false)
