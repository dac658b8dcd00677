-- claim_look.lua: subscriptions of a slot as they are now: all, those on a queue, or one.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  most             stop after more than this many, 0 = never
--          4.. queue, subscription  one or both; without them, all are looked at
-- RETURNS  each as lib/claim_subscription_view.lua has it
-- ERRORS   none
-- SAME AS  engine/claims/views.py:subscription_view

-- include lib/argv_rest.lua
-- include lib/claim_names.lua
-- include lib/claim_find.lua
-- include lib/claim_subscription_view.lua
-- include lib/work_answer.lua

local slot, now_ms, settle_most = slot_prefix(KEYS[1]), tonumber(ARGV[1]), tonumber(ARGV[2])
local most, wanted = tonumber(ARGV[3]), argv_rest(4)

local views = {}
local function show(queue, name)
  local subscription = claim_find(slot, queue, name, now_ms, settle_most)
  if subscription then
    views[#views + 1] = claim_subscription_view(subscription, now_ms, settle_most)
  end
end

if #wanted == 2 then
  show(wanted[1], wanted[2])
else
  for _, timer in ipairs(redis.call('ZRANGE', slot .. 'timers', 0, -1)) do
    local queue, name = claim_names(timer)
    if queue and (queue == wanted[1] or not wanted[1]) then
      show(queue, name)
      if most > 0 and #views > most then
        break
      end
    end
  end
end
return work_answer(views)
