-- work_is_vacant(slot, name): whether the worklist has nothing that a client wants kept, so that
-- another family may have the name. SAME AS engine/work/worklist.py:is_vacant
--
-- include lib/work_is_unset.lua
local function work_is_vacant(slot, name)
  return redis.call('EXISTS', slot .. 'worklist:' .. name) == 1
      and redis.call('ZCARD', slot .. 'expires:' .. name) == 0
      and work_is_unset(slot, name)
end
