-- info.lua: how much there is in a slot.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
-- RETURNS  queues, worklists, messages in worklists, those of them that are not jobs, messages in
--          feeds, open claims, those of them that are stalled, messages in open claims, batches that
--          are staged
-- ERRORS   none
-- SAME AS  stores/embedded/store.py:info

-- include lib/answer.lua
-- include lib/claim_load.lua
-- include lib/claim_names.lua
-- include lib/claim_subscription.lua
-- include lib/items_count.lua

local slot, now_ms = slot_prefix(KEYS[1]), tonumber(ARGV[1])

local open, stalled, claimed, stages, gone, numbered = 0, 0, 0, 0, 0, 0
for _, timer in ipairs(redis.call('ZRANGE', slot .. 'timers', 0, -1)) do
  if string.sub(timer, 1, 6) == 'stage:' then
    stages = stages + 1
  elseif string.sub(timer, 1, 5) == 'gone:' then
    gone = gone + redis.call('ZCARD', slot .. timer)
  end
  local queue, name = claim_names(timer)
  local subscription = queue and claim_subscription(slot, queue, name)
  if subscription then
    local count = subscription.last - subscription.settled
    open = open + count
    if subscription.renewed_ms + subscription.lease_ms <= now_ms then
      stalled = stalled + count
    end
    for number = subscription.settled + 1, subscription.last do
      claimed = claimed + claim_load(subscription, number).messages
    end
  end
end
-- Where there was never anything but jobs no queue need be looked at.
local others = redis.call('HMGET', KEYS[1], 'last_id', 'has_items', 'has_tubes')
local elsewhere = 0  -- messages that are in no `messages`
local names = (others[1] or others[2] or others[3])
    and redis.call('ZRANGE', slot .. 'worklists', 0, -1) or {}
for _, name in ipairs(names) do
  local family = redis.call('HGET', slot .. 'queues', name)
  if family == '4' then  -- as lib/work_is_vacant.lua has it
    elsewhere = elsewhere + items_count(name)
  elseif family == '5' then
    elsewhere = elsewhere + redis.call('HLEN', slot .. 'tasks:' .. name)
  elseif family == '3' then  -- as lib/work_open.lua has it
    numbered = numbered + redis.call('ZCARD', slot .. 'expires:' .. name)
        + redis.call('ZCARD', slot .. 'dead:' .. name)
  end
end
return answer({
  redis.call('HLEN', slot .. 'queues'),
  redis.call('ZCARD', slot .. 'worklists'),
  redis.call('HLEN', slot .. 'messages') - gone + elsewhere,
  numbered + elsewhere,
  tonumber(redis.call('HGET', KEYS[1], 'events') or 0),
  open,
  stalled,
  claimed,
  stages,
})
