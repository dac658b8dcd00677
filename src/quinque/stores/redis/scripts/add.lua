-- add.lua: accept messages into a worklist, ready or delayed.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  stamp_us         the first place if it is later than all others of the slot
--          6  ttl_ms           how long they live
--          7  delay_ms         how long they are delayed
--          8  retry_ms         how long a lease runs; 0 = they are worked at most once
--          9  max_deliveries   0 = as the worklist has it
--         10  replicas         as was asked for
--         11  max_length       refuse when this many are ready; 0 = never
--         12  has_key          1 = there is one message, and it lives under a key
--         13  key              that key
--         14  settle_most      first settle up to this many of each kind
--         15.. id, body        of each message; ids of a family that numbers them are made here
-- RETURNS  the id of the message that lives under the key already, or a list: the first message's
--          place, and the ids that were made; or 1: it must be called again, and nothing was added
-- ERRORS   WRONGTYPE           the name belongs to another family
--          MAXLEN              max_length messages are ready
--          PAUSED              the worklist takes nothing
-- SAME AS  engine/work/decide.py:add

-- include lib/work_find.lua
-- include lib/work_key_holder.lua
-- include lib/work_make.lua
-- include lib/work_put_in.lua
-- include lib/work_answer.lua

local EXPIRED_MOST = 1000  -- removed by one call: some 10 ms
local AGAIN = 1

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local from_us, ttl_ms, delay_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
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
  -- Expired messages are not counted. There may be any number, so some are removed by each call.
  local expires = slot .. 'expires:' .. queue
  if max_length > 0 and redis.call('ZCARD', ready) >= max_length
      and redis.call('ZCOUNT', expires, '-inf', now_ms) > 0 then
    work_settle(list, EXPIRED_MOST)
    if redis.call('ZCARD', ready) >= max_length
        and redis.call('ZCOUNT', expires, '-inf', now_ms) > 0 then
      return work_answer(AGAIN)
    end
  end
  local length = max_length > 0 and redis.call('ZCARD', ready) or 0
  if max_length > 0 and length >= max_length then
    return work_answer(redis.error_reply('MAXLEN ' .. length))
  end
  if list.is_paused_in then
    return work_answer(redis.error_reply('PAUSED takes nothing'))
  end
else
  list = work_open(slot, queue, now_ms, family)
  list.last = work_last(list)
  work_make(slot, queue, family, now_ms)
end

local ids, bodies = {}, {}
for at = 15, #ARGV, 2 do
  ids[#ids + 1], bodies[#bodies + 1] = ARGV[at], ARGV[at + 1]
end
local terms = {
  ttl_ms = ttl_ms,
  delay_ms = delay_ms,
  retry_ms = retry_ms,
  max_deliveries = max_deliveries,
  replicas = replicas,
  key = has_key and message_key,
}
local place, made = work_put_in(list, terms, ids, bodies, from_us, NONE)
return work_answer({place, list.is_reliable and made or nil})
