-- claim_view(claim, now_ms): what is shown of a claim: number, state, messages, body_bytes, chunks,
-- plays, age_ms. SAME AS engine/claims/views.py:claim_view
local function claim_view(claim, now_ms)
  return {
    claim.number,
    claim.state,
    claim.messages,
    claim.body_bytes,
    claim.chunks,
    claim.plays,
    math.max(0, now_ms - claim.began_ms),
  }
end
