-- scan_from(index, from, count): the members of a ZSET whose numbers are `from` or more, `count` if
-- there are as many, and the number to go on with: 0 at the end.
-- SAME AS engine/work/directory.py:scan
local function scan_from(index, from, count)
  local rows = redis.call('ZRANGEBYSCORE', index, from, '+inf', 'WITHSCORES', 'LIMIT', 0, count + 1)
  local members = {}
  for at = 1, math.min(#rows / 2, tonumber(count)) do
    members[at] = rows[2 * at - 1]
  end
  return members, #rows / 2 > #members and tonumber(rows[#rows]) or 0
end
