-- work_purge(list, state, most): messages of that state are gone, up to `most`. Returns how many of
-- them lived, and how many were looked at.
--
-- include lib/work_load.lua
-- include lib/work_is_over.lua
-- include lib/work_remove.lua
local function work_purge(list, state, most)
  local living, looked = 0, 0
  local index = list.slot .. (state == 'leased' and 'due' or state) .. ':' .. list.name
  local skipped = 0  -- delayed ones are due, as leased ones are
  while looked < most do
    local ids = redis.call('ZRANGE', index, skipped, skipped + most - looked - 1)
    if #ids == 0 then
      break
    end
    local gone = {}
    for _, message in ipairs(work_load(list.slot, ids, list.now_ms)) do
      if message.state == state then
        gone[#gone + 1] = message
        living = living + (work_is_over(message, list.now_ms) and 0 or 1)
      else
        skipped = skipped + 1
      end
    end
    work_remove(list, gone, REMOVED, PURGED)
    looked = looked + #gone
  end
  return living, looked
end
