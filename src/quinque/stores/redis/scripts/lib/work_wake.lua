-- work_wake(list): the worklist has something to deliver.
--
-- include lib/answer.lua
local function work_wake(list)
  ready_names[list.name] = true
  redis.call('ZADD', list.slot .. 'busy', 'NX', list.now_ms * 1000, list.name)
end
