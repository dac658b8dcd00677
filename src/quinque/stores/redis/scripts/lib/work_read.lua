-- work_read(slot, ids, now_ms, room_bytes): those messages of these ids that live, with their bodies,
-- until there is no room left; the last body may be larger than it. They are read in lots, so that
-- little is read in vain.
--
-- include lib/work_body.lua
-- include lib/work_is_over.lua
-- include lib/work_load.lua

local READ_MOST = 1000  -- together; their short bodies are a megabyte at most

local function work_read(slot, ids, now_ms, room_bytes)
  local found = {}
  for first = 1, #ids, READ_MOST do
    local some = {unpack(ids, first, math.min(first + READ_MOST - 1, #ids))}
    for _, message in ipairs(work_load(slot, some, now_ms)) do
      if room_bytes <= 0 then
        return found
      end
      if message and not work_is_over(message, now_ms) then
        message.body = work_body(slot, message)
        room_bytes = room_bytes - #message.body
        found[#found + 1] = message
      end
    end
  end
  return found
end
