-- tube_state(tube, tasks): set the state of each task, and the session that has taken it. Each is a
-- task that exists, or false. Returns them.
--
-- include lib/is_there.lua
-- include lib/many.lua
local function tube_state(tube, tasks)
  local ids, found = {}, {}
  for _, task in ipairs(tasks) do
    if task then
      found[#found + 1], ids[#ids + 1] = task, task.id
    end
  end
  local holders = many('HMGET', tube.taken, ids)
  for at, task in ipairs(found) do
    task.session = holders[at]
    task.state = task.session and 'leased' or 'ready'
  end
  for _, state in ipairs({'dead', 'delayed'}) do
    local key = tube.slot .. state .. ':' .. tube.name
    if #ids > 0 and is_there(key) then
      for at, pri in ipairs(many('ZMSCORE', key, ids)) do
        found[at].state = pri and state or found[at].state
      end
    end
  end
  return tasks
end
