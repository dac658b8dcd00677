-- claim_marks(claim): a function that gives, for the chunk of a number from 0, what is to become of its
-- marked messages: by id {outcome, delay_ms, reason}; nothing if none is marked. It also gives what
-- looking for them cost, in messages put back. Kept is "chunk outcome delay_ms reason".
--
-- A few marks are read together. Of many, a step reads only those of the chunks that it closes:
-- otherwise closing a claim would cost the square of its size.
--
-- include lib/is_there.lua
-- include lib/many.lua

local CLAIM_NACK, CLAIM_DEAD = 1, 2  -- as model/claim_ops.py:Outcome has them
local MARKS_TOGETHER_MOST = 1000  -- some 1 ms

local function claim_mark_kept(kept)
  local chunk, outcome, delay_ms, reason = string.match(kept, '^(%d+) (%d) (%d+) (.*)$')
  return tonumber(chunk),
      {outcome = tonumber(outcome), delay_ms = tonumber(delay_ms), reason = reason}
end

local function claim_marks_together(claim)
  local by_chunk = {}
  local kept = redis.call('HGETALL', claim.marks)
  for at = 1, #kept, 2 do
    local chunk, mark = claim_mark_kept(kept[at + 1])
    by_chunk[chunk] = by_chunk[chunk] or {}
    by_chunk[chunk][kept[at]] = mark
  end
  return by_chunk
end

local function claim_marks_of(claim, chunk)
  local ids = cmsgpack.unpack(redis.call('LINDEX', claim.ids, chunk))
  local marks
  for at, kept in ipairs(many('HMGET', claim.marks, ids)) do
    if kept then
      marks = marks or {}
      local _, mark = claim_mark_kept(kept)
      marks[ids[at]] = mark
    end
  end
  return marks, #ids / 5
end

local function claim_marks(claim)
  if redis.call('HLEN', claim.marks) > MARKS_TOGETHER_MOST then
    return function(chunk) return claim_marks_of(claim, chunk) end
  end
  local by_chunk = claim_marks_together(claim)
  return function(chunk) return by_chunk[chunk], 0 end
end
