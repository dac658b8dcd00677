-- requeue.lua: make leased and delayed messages of a slot ready, or delay them; a nack too many makes
-- them dead, and so does a nack with is_dead.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  is_nack          1 = they are given back, and a nack is counted
--          4  delay_ms         0 = they are ready
--          5  reason           why they are given back
--          6  lease            this delivery did not reach its consumer: only messages that were not
--                              delivered again since; 0 = any delivery; -1 = it may have reached it
--          7  is_uncounted     1 = the delivery is not counted
--          8  is_dead          1 = a nack makes them dead, whatever their limit is
--          9.. id              of each message, none twice
-- RETURNS  for each id 1 if it changed, else 0
-- ERRORS   none
-- SAME AS  engine/work/decide.py:requeue

-- include lib/argv_rest.lua
-- include lib/work_find_messages.lua
-- include lib/work_lease_of.lua
-- include lib/work_record.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most = tonumber(ARGV[1]), ARGV[2]
local is_nack, delay_ms, reason = ARGV[3] == '1', tonumber(ARGV[4]), ARGV[5]
local lease, is_uncounted = tonumber(ARGV[6]), ARGV[7] == '1'
local is_dead = is_nack and ARGV[8] == '1'

local function give_back(message)
  local list = message.list
  if is_uncounted and not is_nack and message.state == 'leased' and message.deliveries > 0 then
    message.deliveries = message.deliveries - 1
  end
  work_leave(message)
  if is_nack then
    message.nacks = message.nacks + 1
    message.reason = reason
  elseif not is_uncounted and not message.is_new then
    message.requeues = message.requeues + 1
  end
  if delay_ms > 0 then
    work_enter(message, 'delayed', now_ms + delay_ms)
  else
    work_enter(message, 'ready', 0)
    work_wake(list)
  end
  work_note(message, delay_ms > 0 and DELAYED or RETURNED, is_nack and NACKED or ASKED)
  list.active_ms = now_ms
end

local function may_come_back(message)
  if lease >= 0 then
    return message.state == 'leased' and (lease == 0 or work_lease_of(message) == lease)
  end
  -- A message that is worked at most once comes back only if no consumer can have seen it.
  return (message.state == 'leased' or message.state == 'delayed')
      and (is_dead or message.terms.retry_ms > 0 or message.is_new)
end

local done = {}
for at, message in ipairs(work_find_messages(slot, argv_rest(9), now_ms, settle_most)) do
  done[at] = 0
  if message and may_come_back(message) then
    done[at] = 1
    if is_dead or (is_nack and work_is_spent(message)) then
      message.nacks = message.nacks + 1
      work_die(message, reason ~= '' and reason or 'nacked', NACKED)
    else
      give_back(message)
    end
  end
end
return work_answer(done)
