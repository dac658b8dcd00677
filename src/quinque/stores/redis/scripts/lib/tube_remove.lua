-- tube_remove(tube, tasks, kind, reason): the tasks, whose states are known, are gone, and why goes on
-- record.
-- SAME AS engine/tubes/apply.py:apply_removed
--
-- include lib/answer.lua
-- include lib/many.lua
-- include lib/tube_count.lua
-- include lib/tube_leave.lua
-- include lib/tube_record.lua
local function tube_remove(tube, tasks, kind, reason)
  if #tasks == 0 then
    return
  end
  local ids, long = {}, {}
  for at, task in ipairs(tasks) do
    ids[at] = task.id
    long[#long + 1] = task.is_long and task.id or nil
  end
  tube_leave_all(tube, tasks)
  if tube.capacity > 0 and redis.call('HLEN', tube.tasks) >= tube.capacity then
    ready_names[tube.name] = true  -- there is room again
  end
  many('HDEL', tube.tasks, ids)
  many('HDEL', tube.bodies, long)
  if tube.has_times then
    many('ZREM', tube.due, ids)
  end
  tube_record(tube, kind, reason, ids)
  tube_count(tube, 'done', #ids)
end
