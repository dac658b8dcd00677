-- items_answer(result): as answer(), after what was changed in queues of items is kept.
--
-- include lib/answer.lua
-- include lib/items_close.lua
local function items_answer(result)
  items_close()
  return answer(result)
end
