-- undeliver.lua: messages of a worklist that were taken are ready, in the place they had.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = somebody waits on it, so that it stays
--          5  settle_most      settle so many of each kind first
--          6.. id, lease       of each message, as it was taken; 0 = if it was delivered once only
-- RETURNS  how many are ready now
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/decide.py:undeliver

-- include lib/argv_rest.lua
-- include lib/work_enter.lua
-- include lib/work_find.lua
-- include lib/work_lease_of.lua
-- include lib/work_leave.lua
-- include lib/work_load.lua
-- include lib/work_record.lua
-- include lib/work_wake.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, taken = ARGV[5], argv_rest(6)

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return work_answer(0)
end

local ids, count = {}, 0
for at = 1, #taken, 2 do
  ids[#ids + 1] = taken[at]
end
for at, message in ipairs(work_load(slot, ids, now_ms)) do
  local lease = tonumber(taken[2 * at])
  if message and message.list == list and message.state == 'leased'
      and (work_lease_of(message) == lease or (lease == 0 and message.deliveries == 1)) then
    work_leave(message)
    message.deliveries = math.max(message.deliveries - 1, 0)
    work_enter(message, 'ready', 0)
    work_note(message, RETURNED, ASKED)
    work_wake(list)
    list.active_ms = now_ms
    count = count + 1
  end
end
return work_answer(count)
