-- work_kept(place, terms, body): what is kept of a message, as it came, from texts of all three:
--
--   place length terms body     the length is that of the terms
--   place -length terms         a long body is in `bodies`: what looks at messages need not read it
--
-- work_unkept(kept): place, terms (lib/work_terms.lua), body if it is there.
--
-- include lib/work_terms.lua

local BODY_MOST_BYTES = 1024

local function work_kept(place, terms, body)
  if #body > BODY_MOST_BYTES then
    return place .. ' -' .. #terms .. ' ' .. terms
  end
  return place .. ' ' .. #terms .. ' ' .. terms .. body
end

local function work_unkept(kept)
  local place, length, from = string.match(kept, '^(%d+) (-?%d+) ()')
  local to = from + math.abs(length) - 1
  local terms = work_terms(string.sub(kept, from, to))
  return place, terms, tonumber(length) > 0 and string.sub(kept, to + 1)
end
