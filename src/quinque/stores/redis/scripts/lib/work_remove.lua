-- work_remove(list, messages, kind, reason): these messages of the worklist are gone, and why goes on
-- record if it is said. Of each its id, its list and its terms are enough.
-- SAME AS engine/work/worklist.py:remove
--
-- include lib/answer.lua
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/work_free_key.lua
-- include lib/work_record.lua

-- How many were taken out of there. One or two are not worth a look whether it is there at all.
local function work_drop(command, key, ids)
  return (#ids <= 2 or is_there(key)) and many(command, key, ids) or 0
end

local function work_remove(list, messages, kind, reason)
  if #messages == 0 then
    return
  end
  local slot, of_list, ids = list.slot, ':' .. list.name, {}
  for at, message in ipairs(messages) do
    ids[at] = message.id
    ended_ids[#ended_ids + 1] = message.id
    if message.terms.key then
      work_free_key(message)
    end
  end
  -- Most are leased; delayed ones are in two of these.
  local left = #ids - work_drop('ZREM', slot .. 'due' .. of_list, ids)
  work_drop('ZREM', slot .. 'delayed' .. of_list, ids)
  if left > 0 then
    left = left - work_drop('ZREM', slot .. 'ready' .. of_list, ids)
  end
  if left > 0 then
    work_drop('ZREM', slot .. 'dead' .. of_list, ids)
  end
  work_drop('ZREM', slot .. 'expires' .. of_list, ids)
  many('HDEL', slot .. 'messages', ids)
  work_drop('HDEL', slot .. 'bodies', ids)
  work_drop('HDEL', slot .. 'progress', ids)
  list.is_changed = true
  if kind then
    work_record(list, kind, reason, ids)
  end
end
