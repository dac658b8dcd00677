-- configure.lua: set something for a worklist, and leave the rest as it is.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  is_paused_in     1 or 0; '' = as it is
--          7  is_paused_out    1 or 0; '' = as it is
--          8  max_deliveries   0 = no limit; '' = as it is
--          9  rate_count       this many in rate_ms, 0 = no limit; '' = as it is
--         10  rate_ms          see there
--         11  keeps_expired    1 or 0; '' = as it is
--         12  is_spread        1 = other slots may have messages of it; '' = as it is
-- RETURNS  as lib/work_view.lua has it
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/decide.py:configure

-- include lib/work_find.lua
-- include lib/work_make.lua
-- include lib/work_view.lua
-- include lib/work_wake.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most = ARGV[5]
local wanted = {
  is_paused_in = ARGV[6],
  is_paused_out = ARGV[7],
  max_deliveries = ARGV[8],
  rate_count = ARGV[9],
  rate_ms = ARGV[10],
  keeps_expired = ARGV[11],
  is_spread = ARGV[12],
}

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
if not list then
  local sets = false
  for _, value in pairs(wanted) do
    sets = sets or (value ~= '' and value ~= '0')
  end
  if not sets then  -- so it need not be made
    return work_answer(work_view(work_open(slot, queue, now_ms)))
  end
  list = work_make(slot, queue, family, now_ms)
end
local had_count, had_ms = list.rate_count, list.rate_ms
for name, value in pairs(wanted) do
  if value ~= '' then
    if value == '0' then
      redis.call('HDEL', slot .. 'worklist:' .. queue, name)
    else
      redis.call('HSET', slot .. 'worklist:' .. queue, name, value)
    end
    list[name] = tonumber(value)
    if name == 'is_paused_in' or name == 'is_paused_out' or name == 'keeps_expired' then
      list[name] = value == '1'
    end
  end
end
if list.rate_count ~= had_count or list.rate_ms ~= had_ms then
  list.rate_full_us, list.refused_until_ms = 0, 0
end
list.active_ms = now_ms
list.is_changed = true
work_wake(list)
return work_answer(work_view(list))
