-- settle_items.lua: what time made due in queues of items of a slot is carried out, or a part of it.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  family           code of the queues' family
--          2  now_ms           the broker's clock
--          3  settle_most      up to this many leases in each queue
--          4.. queue, is_waited  of each queue
-- RETURNS  queues that are to be cleaned now, which is this broker's to do
-- ERRORS   none
-- SAME AS  stores/embedded/worklists.py:settle

-- include lib/items_find.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local unclean = {}
for at = 4, #ARGV, 2 do
  local name = ARGV[at]
  local list = items_find(slot, name, family, now_ms, settle_most, ARGV[at + 1] == '1')
  if list and list.clean_ms <= now_ms then
    list.clean_ms, list.is_changed = now_ms + ITEMS_CLEAN_MS, true
    if redis.call('EXISTS', list.processing) == 1 then
      unclean[#unclean + 1] = name
    end
  elseif list == nil then
    -- Its keys are something else: nothing comes due in it until a client asks for it.
    redis.call('ZREM', slot .. 'alarms', name)
  end
end
return items_answer(unclean)
