-- divide_places.lua: how many messages of a queue there are, and places at equal distances.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays; '' = it is a feed
--          5  settle_most      first settle up to this many of each kind
--          6  samples          up to this many places of each kind
--          7.. kind            of what is counted: keys of which are ids by place
-- RETURNS  for each kind a list: how many there are, and the places of some, the last one's last;
--          how many are leased; how many are leased or delayed; the newest place of the slot
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  model/look_ops.py:DividePlaces

-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot, family, now_ms, queue = slot_prefix(KEYS[1]), ARGV[1], tonumber(ARGV[2]), ARGV[3]
local is_feed, is_waited, settle_most = ARGV[4] == '', ARGV[4] == '1', tonumber(ARGV[5])
local samples = tonumber(ARGV[6])

local is_ours
if is_feed then
  is_ours = feed_open(feed_keys(slot, queue), family, now_ms, settle_most)
else
  is_ours = work_find(slot, queue, family, now_ms, settle_most, is_waited) ~= nil
end
if not is_ours then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

local rows = {}
for at = 7, #ARGV do
  local index = slot .. ARGV[at] .. ':' .. queue
  local count = redis.call('ZCARD', index)
  local row, some = {count}, math.min(count, samples)
  for number = 1, some do
    local rank = math.ceil(number * count / some) - 1
    row[number + 1] = tonumber(redis.call('ZRANGE', index, rank, rank, 'WITHSCORES')[2])
  end
  rows[#rows + 1] = row
end
local due = is_feed and 0 or redis.call('ZCARD', slot .. 'due:' .. queue)
local delayed = is_feed and 0 or redis.call('ZCARD', slot .. 'delayed:' .. queue)
return work_answer({
  rows,
  due - delayed,
  due,
  tonumber(redis.call('HGET', KEYS[1], 'last_place') or 0),
})
