-- work_remove(list, messages, kind, reason): remove these messages of the worklist, and record why if
-- `kind` is given. Each message needs its id, its list and its terms only.
-- SAME AS engine/work/worklist.py:remove
--
-- include lib/answer.lua
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/work_free_key.lua
-- include lib/work_record.lua

local WORK_KINDS = {'due', 'delayed', 'ready', 'dead', 'expires'}

local function work_remove(list, messages, kind, reason)
  if #messages == 0 then
    return
  end
  local slot, of_list, ids, keyed = list.slot, ':' .. list.name, {}, {}
  for at, message in ipairs(messages) do
    ids[at] = message.id
    ended_ids[#ended_ids + 1] = message.id
    if message.terms.key and work_has_key(message) then
      keyed[#keyed + 1] = message.terms.key
    end
  end
  -- All reads come before the first write. One or two are not worth a look whether a key is there.
  local absent = {}
  if #ids > 2 then
    for _, kind in ipairs(WORK_KINDS) do
      absent[kind] = not is_there(slot .. kind .. of_list)
    end
    absent.bodies, absent.progress = not is_there(slot .. 'bodies'), not is_there(slot .. 'progress')
  end

  -- How many were taken out of there.
  local function drop(command, kind, key)
    return absent[kind] and 0 or many(command, key, ids)
  end

  many('HDEL', slot .. 'keys' .. of_list, keyed)
  -- Most are leased; delayed ones are in two of these.
  local left = #ids - drop('ZREM', 'due', slot .. 'due' .. of_list)
  drop('ZREM', 'delayed', slot .. 'delayed' .. of_list)
  if left > 0 then
    left = left - drop('ZREM', 'ready', slot .. 'ready' .. of_list)
  end
  if left > 0 then
    drop('ZREM', 'dead', slot .. 'dead' .. of_list)
  end
  drop('ZREM', 'expires', slot .. 'expires' .. of_list)
  many('HDEL', slot .. 'messages', ids)
  drop('HDEL', 'bodies', slot .. 'bodies')
  drop('HDEL', 'progress', slot .. 'progress')
  list.is_changed = true
  if kind then
    work_record(list, kind, reason, ids)
  end
end
