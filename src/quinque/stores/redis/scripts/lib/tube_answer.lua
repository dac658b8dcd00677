-- tube_answer(result): as answer(), after what was changed in tubes is kept.
--
-- include lib/answer.lua
-- include lib/tube_close.lua
local function tube_answer(result)
  tube_close()
  return answer(result)
end
