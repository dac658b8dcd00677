-- work_deliver_again(list, ids, progress, given, from): of the messages that `progress` knows of, each
-- is delivered once more than before; how often it came back is in `given`, which has six fields of
-- each message from number `from` on.
--
-- include lib/work_enter.lua
-- include lib/work_load.lua
local function work_deliver_again(list, ids, progress, given, from)
  for at, id in ipairs(ids) do
    local to = from + 6 * (at - 1)
    if progress[at] and given[to] then
      local message = {id = id, list = list, state = 'leased'}
      work_read_progress(message, progress[at])
      message.deliveries = message.deliveries + 1
      work_keep_progress(message)
      given[to + 3], given[to + 4] = message.nacks, message.requeues
    end
  end
end
