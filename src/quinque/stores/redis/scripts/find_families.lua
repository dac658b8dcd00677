-- find_families.lua: which families queues of a slot belong to.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind in each
--          3.. queue, is_waited  of each queue; 1 = a client waits on it, so that it stays
-- RETURNS  for each queue the code of its family, nothing if it is not there
-- ERRORS   none
-- SAME AS  model/queue_ops.py:FindFamilies

-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot, now_ms, settle_most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])

local function is_there_now(name, owner, is_waited)
  if redis.call('EXISTS', slot .. 'worklist:' .. name) == 0 then
    local feed = feed_keys(slot, name)
    feed_open(feed, owner, now_ms, settle_most)
    return feed.is_there
  elseif owner == '4' or owner == '5' then  -- items and tubes, which lie in other keys
    return true
  end
  return work_find(slot, name, owner, now_ms, settle_most, is_waited)
end

local found = {}
for at = 3, #ARGV, 2 do
  local owner = redis.call('HGET', slot .. 'queues', ARGV[at])
  local is_there = owner and is_there_now(ARGV[at], owner, ARGV[at + 1] == '1')
  found[#found + 1] = is_there and owner or false
end
return work_answer(found)
