-- slot_begin(slot): the slot is about to have a queue, a subscription or a batch. Brokers are told if it
-- is the first one: they look at slots without any rarely (wakeups.py).
local function slot_begin(slot)
  if redis.call('EXISTS', slot .. 'queues', slot .. 'timers') == 0 then
    redis.call('PUBLISH', 'quinque:begun', slot)
  end
end
