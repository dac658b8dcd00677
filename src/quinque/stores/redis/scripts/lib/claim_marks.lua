-- claim_marks(claim): for each chunk of which messages are marked, by its number from 0, what is to
-- become of them: by id {outcome, delay_ms, reason}. Kept is "chunk outcome delay_ms reason".

local CLAIM_NACK, CLAIM_DEAD = 1, 2  -- as model/claim_ops.py:Outcome has them

local function claim_marks(claim)
  local by_chunk = {}
  local kept = redis.call('HGETALL', claim.marks)
  for at = 1, #kept, 2 do
    local chunk, outcome, delay_ms, reason = string.match(kept[at + 1], '^(%d+) (%d) (%d+) (.*)$')
    chunk = tonumber(chunk)
    by_chunk[chunk] = by_chunk[chunk] or {}
    by_chunk[chunk][kept[at]] = {
      outcome = tonumber(outcome),
      delay_ms = tonumber(delay_ms),
      reason = reason,
    }
  end
  return by_chunk
end
