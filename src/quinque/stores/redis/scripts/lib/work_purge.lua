-- work_purge(list, state, most, skipped): messages of that state are gone; up to `most` are looked at.
-- Returns how many of them lived, how many were looked at, and how many to skip by the next call:
-- delayed messages are among those whose leases end, and those that are due later come first, because
-- what becomes due meanwhile leaves at the other end.
--
-- include lib/work_expire.lua
-- include lib/work_load_listed.lua
-- include lib/work_is_over.lua
-- include lib/work_remove.lua
local function work_purge(list, state, most, skipped)
  local living, looked = 0, 0
  local index = list.slot .. (state == 'leased' and 'due' or state) .. ':' .. list.name
  local command = state == 'leased' and 'ZREVRANGE' or 'ZRANGE'
  while looked < most do
    local ids = redis.call(command, index, skipped, skipped + most - looked - 1)
    if #ids == 0 then
      break
    end
    local gone = {}
    for _, message in ipairs(work_load_listed(list, ids)) do
      if message.state == state then
        gone[#gone + 1] = message
        local is_gone = work_is_over(message, list.now_ms) and not work_is_kept(message)
        living = living + (is_gone and 0 or 1)
      else
        skipped = skipped + 1
      end
    end
    work_remove(list, gone, REMOVED, PURGED)
    looked = looked + #ids
  end
  return living, looked, skipped
end
