-- items_return(list, ids, counts): the items are in `queue`, at the back; counts.returned tells how
-- many.
--
-- include lib/answer.lua
-- include lib/many.lua
-- include lib/work_record.lua
local function items_return(list, ids, counts)
  if #ids > 0 then
    many('LPUSH', list.queue, ids)
    work_record(list, RETURNED, LAPSED, ids)
    counts.returned = counts.returned + #ids
    ready_names[list.name] = true
    list.came, list.active_ms, list.is_changed = list.came + #ids, list.now_ms, true
  end
end
