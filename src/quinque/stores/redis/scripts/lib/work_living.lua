-- work_living(list, ids): those of the messages that live; the others are gone, or dead.
-- SAME AS engine/work/order.py:living
--
-- include lib/work_expire.lua
-- include lib/work_is_over.lua
-- include lib/work_load_listed.lua
local function work_living(list, ids)
  local living, gone = {}, {}
  for _, message in ipairs(work_load_listed(list, ids)) do
    if work_is_over(message, list.now_ms) then
      gone[#gone + 1] = message
    else
      living[#living + 1] = message.id
    end
  end
  work_expire(list, gone)
  return living
end
