-- claim_fill.lua: move messages of a queue into a claim: one chunk of them.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  subscription     whose claim it is
--          4  is_waited        1 = a client waits on the queue, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  epoch            the caller's
--          7  number           of the claim
--          8  count            up to this many messages
--          9  until_place      none that came later; 0 = any
--         10  seals            1 = seal it if nothing is left to put in, 2 = or all came, 0 = do not
-- RETURNS  the claim as lib/claim_view.lua has it, or nothing if it is not there; how many messages
--          came; the bytes of their bodies; 1 if there may be more
-- ERRORS   NOSUB               the subscription does not exist
--          SUPERSEDED          another client opened it since
--          BADCLAIM            it cannot be begun, or was forfeited
--          WRONGTYPE           the queue belongs to another family
-- SAME AS  engine/claims/decide.py:claim_to_fill

-- include lib/claim_find.lua
-- include lib/claim_keep_subscription.lua
-- include lib/claim_load.lua
-- include lib/claim_reserve.lua
-- include lib/claim_take.lua
-- include lib/claim_view.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/find_queue.lua
-- include lib/work_answer.lua
-- include lib/work_find.lua

local slot, now_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local is_waited, settle_most = ARGV[4] == '1', tonumber(ARGV[5])
local epoch, number, count = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local until_place, seals = tonumber(ARGV[9]), ARGV[10]

local subscription = claim_find(slot, queue, ARGV[3], now_ms, settle_most)
if not subscription then
  return work_answer(redis.error_reply('NOSUB ' .. ARGV[3]))
elseif subscription.epoch ~= epoch then
  return work_answer(redis.error_reply('SUPERSEDED ' .. subscription.epoch))
end
subscription.renewed_ms = now_ms

local claim = claim_load(subscription, number)
if claim and claim.state == CLAIM_IS_FORFEITED then
  return work_answer(redis.error_reply('BADCLAIM was released'))
elseif claim and claim.state ~= CLAIM_FILLING then
  claim_keep_subscription(subscription, now_ms)
  return work_answer({claim_view(claim, now_ms), 0, 0, 0})
end
if not claim then
  local before = claim_load(subscription, subscription.last)
  if number ~= subscription.last + 1 then
    return work_answer(redis.error_reply('BADCLAIM cannot be started: the next claim is '
        .. subscription.last + 1))
  elseif before and before.state == CLAIM_FILLING then
    return work_answer(redis.error_reply('BADCLAIM cannot be started: claim ' .. before.number .. ' is not sealed'))
  end
  claim = claim_begin(subscription, number, now_ms)
end

-- A chunk of what is in the queue, and whether there may be more; nothing if the queue belongs to
-- another family.
local function from_queue()
  if count == 0 then
    return find_queue(slot, queue, subscription.family, now_ms) ~= nil and claim_chunk(), true
  elseif subscription.is_worklist then
    local list = work_find(slot, queue, subscription.family, now_ms, settle_most, is_waited)
    if not list then
      return list == false and claim_chunk()
    end
    return claim_take(list, claim, count, until_place)
  end
  local feed = feed_keys(slot, queue)
  if not feed_open(feed, subscription.family, now_ms, settle_most) then
    return nil
  end
  return claim_reserve(feed, subscription.group, count, settle_most, until_place)
end

local chunk, is_more = from_queue()
if not chunk then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
claim_append(claim, chunk)
if claim.messages == 0 then
  claim_keep_subscription(subscription, now_ms)
  return work_answer({false, 0, 0, is_more and 1 or 0})
end
if #chunk.ids > 0 then
  record(slot, now_ms, DELIVERED, CLAIMED, subscription.family, queue,
      subscription.is_worklist and subscription.name or subscription.group, number, chunk.ids)
end
if seals ~= '0' and (not is_more or (seals == '2' and #chunk.ids == count)) then
  claim.state = CLAIM_SEALED
end
subscription.last = number
claim_keep(claim)
claim_keep_subscription(subscription, now_ms)
return work_answer({claim_view(claim, now_ms), #chunk.ids, chunk.body_bytes, is_more and 1 or 0})
