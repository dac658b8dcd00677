-- copy_out_chunk.lua: a chunk of a claim, for a copy.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  queue            its name
--          2  subscription     whose claim it is
--          3  number           of the claim
--          4  chunk            of the claim
-- RETURNS  packed rows
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:chunk_kept

-- include lib/answer.lua
-- include lib/claim_load.lua
-- include lib/claim_subscription.lua

local subscription = claim_subscription(slot_prefix(KEYS[1]), ARGV[1], ARGV[2])
local claim = claim_load(subscription, tonumber(ARGV[3]))
return answer(redis.call('LINDEX', claim.rows, ARGV[4]))
