-- session_answer(result): what a script about sessions answers with: as lib/answer.lua, and what is
-- next due is that a session ends.
--
-- include lib/slot_prefix.lua
local function session_answer(result)
  local first = redis.call('ZRANGE', slot_prefix(KEYS[1]) .. 'left', 0, 0, 'WITHSCORES')
  return {{tonumber(first[2] or -1)}, {}, {}, result}
end
