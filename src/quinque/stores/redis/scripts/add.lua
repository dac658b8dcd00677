-- add.lua: accept messages into a worklist, ready or delayed.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = somebody waits on it, so that it stays
--          5  stamp_us         the first place if it is later than all others of the slot
--          6  ttl_ms           how long they live
--          7  delay_ms         how long they are delayed
--          8  retry_ms         how long a lease runs; 0 = they are worked at most once
--          9  max_deliveries   0 = as the worklist has it
--         10  replicas         as was asked for
--         11  max_length       refuse when so many are ready; 0 = never
--         12  has_key          1 = there is one message, and it lives under a key
--         13  key              that key
--         14  settle_most      settle so many of each kind first
--         15.. id, body        of each message
-- RETURNS  the id of the message that lives under the key already, or the first message's place
-- ERRORS   WRONGTYPE           the name belongs to another family
--          MAXLEN              so many are ready
--          PAUSED              the worklist takes nothing
-- SAME AS  engine/work/decide.py:add

-- include lib/many.lua
-- include lib/work_find.lua
-- include lib/work_key_holder.lua
-- include lib/work_make.lua
-- include lib/work_kept.lua
-- include lib/work_answer.lua

local SETTLE_MOST_COUNTING = 10000  -- model/limits.py:SETTLE_MOST_COUNTING

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local place, ttl_ms, delay_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local retry_ms, max_deliveries, replicas = ARGV[8], ARGV[9], ARGV[10]
local max_length, has_key, message_key = tonumber(ARGV[11]), ARGV[12] == '1', ARGV[13]
local settle_most = ARGV[14]
local ready = slot .. 'ready:' .. queue

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
if list then
  local holder = has_key and work_key_holder(list, message_key)
  if holder then
    return work_answer(holder)
  end
  -- What has expired is not counted.
  while max_length > 0 and redis.call('ZCARD', ready) >= max_length
      and redis.call('ZCOUNT', slot .. 'expires:' .. queue, '-inf', now_ms) > 0 do
    work_settle(list, SETTLE_MOST_COUNTING)
  end
  local length = max_length > 0 and redis.call('ZCARD', ready) or 0
  if max_length > 0 and length >= max_length then
    return work_answer(redis.error_reply('MAXLEN ' .. length))
  end
  if list.is_paused_in then
    return work_answer(redis.error_reply('PAUSED takes nothing'))
  end
else
  list = work_make(slot, queue, family, now_ms)
end

local count = (#ARGV - 14) / 2
place = math.max(place, tonumber(redis.call('HGET', KEYS[1], 'last_place') or 0) + 1)
keep_time(slot, now_ms, 'last_place', string.format('%d', place + count - 1))

-- All that is said to Redis is text: it takes long to write numbers of so many digits.
local terms = work_terms_text(ttl_ms, delay_ms, retry_ms, max_deliveries, replicas,
    has_key and message_key, queue)
local kept, long, scored = {}, {}, {}
for at = 1, count do
  local id, body = ARGV[13 + 2 * at], ARGV[14 + 2 * at]
  local text = string.format('%d', place + at - 1)
  kept[2 * at - 1], kept[2 * at] = id, work_kept(text, terms, body)
  scored[2 * at - 1], scored[2 * at] = text, id
  if #body > BODY_MOST_BYTES then
    long[#long + 1], long[#long + 2] = id, body
  end
end
many('HSET', slot .. 'messages', kept)
many('HSET', slot .. 'bodies', long)
many('ZADD', slot .. (delay_ms > 0 and 'delayed:' or 'ready:') .. queue, scored)

local function keep_moment(kind, at_ms)
  local text = string.format('%d', at_ms)
  for at = 1, count do
    scored[2 * at - 1] = text
  end
  many('ZADD', slot .. kind .. ':' .. queue, scored)
end

keep_moment('expires', now_ms + ttl_ms)
if delay_ms > 0 then
  keep_moment('due', now_ms + delay_ms)
else
  list.came = list.came + count
  work_wake(list)
end
if has_key then
  redis.call('HSET', slot .. 'keys:' .. queue, message_key, ARGV[15])
end
list.active_ms = now_ms
list.is_changed = true
return work_answer(place)
