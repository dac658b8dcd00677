-- info.lua: how much there is in a slot.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     none
-- RETURNS  queues, worklists, messages in worklists, messages in feeds
-- ERRORS   none
-- SAME AS  stores/embedded/store.py:info

-- include lib/answer.lua

local slot = slot_prefix(KEYS[1])
return answer({
  redis.call('HLEN', slot .. 'queues'),
  redis.call('ZCARD', slot .. 'worklists'),
  redis.call('HLEN', slot .. 'messages'),
  tonumber(redis.call('HGET', KEYS[1], 'events') or 0),
})
