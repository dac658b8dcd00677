-- work_texts(list, ids): what is kept of these messages, which an index of the worklist has, and
-- their ids. An id without a message leaves the worklist and is in neither.
--
-- include lib/many.lua
-- include rarely lib/work_unfound.lua
local function work_texts(list, ids)
  local kept, unfound = many('HMGET', list.slot .. 'messages', ids), nil
  for at, id in ipairs(ids) do
    if not kept[at] then
      unfound = unfound or {}
      unfound[#unfound + 1] = id
    end
  end
  if not unfound then
    return kept, ids
  end
  work_unfound(list, unfound)
  local texts, found = {}, {}
  for at, id in ipairs(ids) do
    if kept[at] then
      texts[#texts + 1], found[#found + 1] = kept[at], id
    end
  end
  return texts, found
end
