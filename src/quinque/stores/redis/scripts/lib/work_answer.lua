-- work_answer(result): as answer(), after what was changed in worklists is kept.
--
-- include lib/answer.lua
-- include lib/work_close.lua
local function work_answer(result)
  work_close()
  return answer(result)
end
