-- claim_chunk(): a chunk of rows (model/rows.py) that is being made: claim_row() appends one.
--
-- claim_row(chunk, id, body, attempt, place, expires_ms, tail): whether there was room for it; for
-- one there always is. `tail` is what claim_tail() made of its last eight fields, which most rows
-- have alike.
--
-- claim_append(claim, chunk): the chunk, if there is something in it, belongs to the claim.

local CHUNK_ROWS_MOST, CHUNK_BYTES_MOST = 1000, 2 ^ 20  -- as model/rows.py has them
local THIRTEEN_FIELDS = string.char(0x9d)  -- how a packed list of 13 begins
local LIST_HEAD_BYTES = 3

local function claim_chunk()
  return {parts = {''}, ids = {}, size_bytes = LIST_HEAD_BYTES, body_bytes = 0, most_place = 0}
end

local function claim_tail(state, due_ms, nacks, requeues, reason, key, terms, flags)
  return cmsgpack.pack(state, due_ms, nacks, requeues, reason, key or cjson.null,
      terms or cjson.null, flags)
end

local function claim_row(chunk, id, body, attempt, place, expires_ms, tail)
  local head = cmsgpack.pack(id, body, attempt, place, expires_ms)
  local size_bytes = chunk.size_bytes + 1 + #head + #tail
  if #chunk.ids > 0 and (size_bytes > CHUNK_BYTES_MOST or #chunk.ids == CHUNK_ROWS_MOST) then
    return false
  end
  local parts = chunk.parts
  local to = #parts
  parts[to + 1], parts[to + 2], parts[to + 3] = THIRTEEN_FIELDS, head, tail
  chunk.ids[#chunk.ids + 1] = id
  chunk.size_bytes, chunk.body_bytes = size_bytes, chunk.body_bytes + #body
  chunk.most_place = math.max(chunk.most_place, place)
  return true
end

local function claim_append(claim, chunk)
  if #chunk.ids == 0 then
    return
  end
  chunk.parts[1] = struct.pack('>BH', 0xdc, #chunk.ids)
  redis.call('RPUSH', claim.rows, table.concat(chunk.parts))
  redis.call('RPUSH', claim.ids, cmsgpack.pack(chunk.ids))
  claim.chunks = claim.chunks + 1
  claim.most_place = math.max(claim.most_place, chunk.most_place)
  claim.messages = claim.messages + #chunk.ids
  claim.body_bytes = claim.body_bytes + chunk.body_bytes
end
