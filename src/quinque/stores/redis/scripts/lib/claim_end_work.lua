-- claim_end_work(list, claim, at, marks, note): what became of the claim is true of the messages of
-- its chunk `at`, of a worklist; that may not be there if none go back to it. note(kind, reason, ids, count) has it recorded. Returns how many are
-- finished, how many are in the worklist again, and what that cost, in messages put back.
--
-- include lib/claim_load.lua
-- include lib/claim_marks.lua
-- include lib/claim_put_back.lua
-- include lib/claim_row_message.lua
-- include lib/is_there.lua
-- include lib/work_die.lua
-- include lib/work_limit.lua

local function claim_count(packed_ids)
  local first, second, third = string.byte(packed_ids, 1, 3)
  return first == 0xdc and second * 256 + third or first - 0x90
end

-- The message as it is given back, or dead. SAME AS engine/claims/returning.py:_change
local function claim_turn(message, mark)
  if mark.outcome == CLAIM_NACK then
    message.nacks = message.nacks + 1
  end
  local is_spent = mark.outcome == CLAIM_NACK and work_is_spent(message)
  message.reason = is_spent and mark.reason == '' and 'nacked' or mark.reason
  if is_spent or mark.outcome == CLAIM_DEAD then
    message.state = 'dead'
    ended_ids[#ended_ids + 1] = message.id
    return DEAD
  end
  if mark.delay_ms > 0 then
    message.state, message.due_ms = 'delayed', message.list.now_ms + mark.delay_ms
    return DELAYED
  end
  return RETURNED
end

-- Report the end of these messages, if a client waits for an end in this slot. They may be packed.
local function claim_tell_ends(claim, ids)
  if is_there(claim.subscription.slot .. 'awaited') then
    for _, id in ipairs(type(ids) == 'table' and ids or cmsgpack.unpack(ids)) do
      ended_ids[#ended_ids + 1] = id
    end
  end
end

local function claim_end_marked(list, claim, rows, marks, note)
  local acked, back, by_kind = {}, {}, {[DEAD] = {}, [DELAYED] = {}, [RETURNED] = {}}
  for _, row in ipairs(rows) do
    local mark = marks[row[1]]
    if mark then
      local message = claim_row_message(list, row, row[3])
      local ids = by_kind[claim_turn(message, mark)]
      ids[#ids + 1] = message.id
      back[#back + 1] = message
      if message.terms.key then
        redis.call('HDEL', claim.keys, message.terms.key)
      end
    else
      acked[#acked + 1] = row[1]
    end
  end
  claim_put_back(list, back)
  claim_tell_ends(claim, acked)
  note(ACKED, CLAIM_SETTLED, acked, #acked)
  for kind, ids in pairs(by_kind) do
    note(kind, NACKED, ids, #ids)
  end
  return #acked, #back
end

local function claim_end_work(list, claim, at, marks, note)
  local packed_ids = redis.call('LINDEX', claim.ids, at)
  local count = claim_count(packed_ids)
  local finished, returned, cost = count, 0, count / 50
  if claim.state == CLAIM_IS_FORFEITED then
    local messages = {}
    for to, row in ipairs(cmsgpack.unpack(redis.call('LINDEX', claim.rows, at))) do
      messages[to] = claim_row_message(list, row, row[3])
    end
    claim_put_back(list, messages)
    note(RETURNED, claim.why, packed_ids, count)
    finished, returned, cost = 0, count, count
  elseif marks then
    local rows = cmsgpack.unpack(redis.call('LINDEX', claim.rows, at))
    finished, returned = claim_end_marked(list, claim, rows, marks, note)
    cost = count
  else
    claim_tell_ends(claim, packed_ids)
    note(ACKED, CLAIM_SETTLED, packed_ids, count)
  end
  if list then
    redis.call('HINCRBY', list.slot .. 'worklist:' .. list.name, 'claimed', 0 - count)
    list.is_changed = true
  end
  return finished, returned, cost
end
