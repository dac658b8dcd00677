-- claim_load(subscription, number): the claim of that number; nothing if it is not there. Beside what
-- is shown of it:
--
--   rows, ids      keys of its chunks: packed rows, and packed ids of the same messages
--   keys, marks    keys of what lives under a key, and of what is not to be acked
--   applied        how many of its chunks are dealt with, once it is settled or forfeited
--   why            it is forfeited, as the record has it
--   ended_ms       when it was settled or forfeited
--   most_place     the latest place of its messages, of a feed
--
-- claim_begin(subscription, number, now_ms): a new claim, with nothing in it.
-- claim_keep(claim): it is kept as it is.

local CLAIM_FILLING, CLAIM_SEALED, CLAIM_IS_SETTLED, CLAIM_IS_FORFEITED = 0, 1, 2, 3
local CLAIM_FIELDS = {'state', 'messages', 'body_bytes', 'chunks', 'plays', 'began_ms', 'applied',
  'why', 'most_place', 'ended_ms'}

local function claim_begin(subscription, number, now_ms)
  local slot = subscription.slot
  local at = string.format('%d:', number) .. subscription.names
  return {
    subscription = subscription,
    number = number,
    about = slot .. 'claim:' .. at,
    rows = slot .. 'claim_rows:' .. at,
    ids = slot .. 'claim_ids:' .. at,
    keys = slot .. 'claim_keys:' .. at,
    marks = slot .. 'claim_marks:' .. at,
    state = CLAIM_FILLING,
    messages = 0,
    body_bytes = 0,
    chunks = 0,
    plays = 0,
    began_ms = now_ms,
    applied = 0,
    why = 0,
    most_place = 0,
    ended_ms = 0,
  }
end

local function claim_load(subscription, number)
  if number < subscription.first or subscription.last < number then
    return nil
  end
  local claim = claim_begin(subscription, number, 0)
  for at, value in ipairs(redis.call('HMGET', claim.about, unpack(CLAIM_FIELDS))) do
    claim[CLAIM_FIELDS[at]] = tonumber(value or 0)
  end
  return claim
end

local function claim_keep(claim)
  local fields = {}
  for _, name in ipairs(CLAIM_FIELDS) do
    fields[#fields + 1] = name
    fields[#fields + 1] = string.format('%d', claim[name])
  end
  redis.call('HSET', claim.about, unpack(fields))
end
