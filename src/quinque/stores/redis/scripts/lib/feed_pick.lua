-- feed_pick(ids, kind_of): for each id 1 if it has a kind, which kind_of(at) tells, and is named for
-- the first time, else 0; and the ids of each kind.
local function feed_pick(ids, kind_of)
  local results, picked, seen = {}, {}, {}
  for at, id in ipairs(ids) do
    local kind = not seen[id] and kind_of(at)
    results[at] = kind and 1 or 0
    if kind then
      seen[id] = true
      picked[kind] = picked[kind] or {}
      picked[kind][#picked[kind] + 1] = id
    end
  end
  return results, picked
end
