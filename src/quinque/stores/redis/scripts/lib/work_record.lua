-- work_record(list, kind, reason, ids, sizes): that this became of messages of the worklist, one at
-- least, goes on record. work_note(message, kind, reason): so it does of one, together with others
-- of which the script says the same.
--
-- include lib/record.lua
local function work_record(list, kind, reason, ids, sizes)
  if is_recording then
    list.family = list.family or redis.call('HGET', list.slot .. 'queues', list.name)
    record(list.slot, list.now_ms, kind, reason, list.family, list.name, '', 0, ids, nil, sizes)
  end
end

local function work_note(message, kind, reason)
  local list, what = message.list, kind * 100 + reason
  list.noted = list.noted or {}
  local ids = list.noted[what]
  if not ids then
    ids = {}
    list.noted[what] = ids
    work_record(list, kind, reason, ids)
  end
  ids[#ids + 1] = message.id
end
