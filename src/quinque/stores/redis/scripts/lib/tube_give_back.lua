-- tube_give_back(tube, ids, session): make those of these tasks ready that the session has taken, or
-- any session if none is named. Returns how many.
--
-- include lib/many.lua
-- include lib/tube_count.lua
-- include lib/tube_enter.lua
-- include lib/tube_find.lua
-- include lib/tube_leave.lua
-- include lib/tube_load.lua
-- include lib/tube_record.lua
-- include rarely lib/tube_unfound.lua
local function tube_give_back(tube, ids, session)
  tube_ripen(tube, ids)
  local holders, back, unfound = many('HMGET', tube.taken, ids), {}, {}
  for at, task in ipairs(tube_load(tube, ids)) do
    if task and holders[at] and (not session or holders[at] == session) then
      task.state, task.session = 'leased', holders[at]
      tube_leave(tube, task)
      tube_enter(tube, task, 'ready')
      back[#back + 1] = task.id
    elseif not task and holders[at] then
      unfound[#unfound + 1] = ids[at]
    end
  end
  if #unfound > 0 then
    tube_unfound(tube, unfound)
  end
  tube_record(tube, RETURNED, SESSION_OVER, back)
  tube_count(tube, 'release', #back)
  return #back
end
