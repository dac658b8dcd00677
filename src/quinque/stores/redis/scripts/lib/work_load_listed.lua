-- work_load_listed(list, ids): the messages of these ids, which an index of the worklist has. An id
-- without a message leaves the worklist, so that it does not stop what comes behind it.
--
-- include lib/work_load.lua
-- include rarely lib/work_unfound.lua
local function work_load_listed(list, ids)
  local messages, unfound = work_load(list.slot, ids, list.now_ms), {}
  for at, message in ipairs(messages) do
    if not message then
      unfound[#unfound + 1] = ids[at]
    end
  end
  if #unfound == 0 then
    return messages
  end
  work_unfound(list, unfound)
  local found = {}
  for _, message in ipairs(messages) do
    if message then
      found[#found + 1] = message
    end
  end
  return found
end
