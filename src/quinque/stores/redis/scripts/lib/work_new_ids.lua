-- work_new_ids(last_id, now_ms, count): ids, <ms>-<number>, each later than all before, of which
-- last_id is the last.
-- SAME AS stores/embedded/numbers.py:Numbers
local function work_new_ids(last_id, now_ms, count)
  local last_ms, number = string.match(last_id, '^(%d+)-(%d+)$')
  local start, before = last_ms .. '-', tonumber(number)
  if tonumber(last_ms) < now_ms then
    start, before = string.format('%d-', now_ms), 0
  end
  local ids = {}
  for at = 1, count do
    ids[at] = start .. before + at
  end
  return ids
end
