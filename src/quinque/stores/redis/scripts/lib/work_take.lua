-- work_take(list, most, room_bytes, jitter_ms, given): up to `most` ready messages of the worklist
-- are leased and appended to `given`: queue, id, body, nacks, requeues, lease (lib/work_lease_of.lua).
-- Returns how many, the room that is left (the last body may be larger than it), and whether it gave
-- up among messages that had expired: then a reader has to look again, after others had their turn.
-- SAME AS engine/work/decide.py: room_to_take, take; engine/work/rate.py
--
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/work_close.lua
-- include lib/work_is_due.lua
-- include lib/work_kept.lua
-- include lib/work_record.lua
-- include lib/work_lease_end.lua
-- include lib/work_takeable.lua
-- include lib/work_texts.lua
-- include lib/work_turns.lua
-- include lib/rate_take.lua
-- include rarely lib/work_deliver_again.lua
-- include rarely lib/work_living.lua

local TAKE_MOST = 1000  -- looked at together
local LOOKS_MOST, LOOK_MOST = 4, 500  -- at messages that had expired: some 15 ms of work
local looks = 0  -- in all worklists of the script

-- The first messages are leased and appended to `given`, until there is no room left; for how long
-- each, ms, and the room.
local function work_lease(list, ids, room_bytes, jitter_ms, given)
  local slot, spans_ms, held, ends = list.slot, {}, {}, {}
  local leased, once, from, was_delivered = {}, {}, #given + 1, false
  local kept
  kept, ids = work_texts(list, ids)
  local turn = list.is_reliable and work_turns(list, #ids)
  local progress = is_there(slot .. 'progress')
      and many('HMGET', slot .. 'progress', ids) or {}
  for at, id in ipairs(ids) do
    if room_bytes <= 0 then
      break
    end
    local _, terms, body = work_unkept(kept[at])
    body = body or redis.call('HGET', slot .. 'bodies', id)
    room_bytes = room_bytes - #body
    local retry_ms = terms.retry_ms
    if not ends[retry_ms] then
      local due_ms = work_lease_end(retry_ms, list.now_ms, jitter_ms)
      ends[retry_ms] = string.format('%d', due_ms > 0 and due_ms or turn or work_turns(list, 1))
    end
    spans_ms[at] = retry_ms
    local kind = (turn or retry_ms > 0) and leased or once
    kind[#kind + 1] = id
    local lease = turn and string.format('%d', turn + at - 1) or ends[retry_ms]
    held[2 * at - 1], held[2 * at] = lease, id
    was_delivered = was_delivered or progress[at]
    local to = #given
    given[to + 1], given[to + 2], given[to + 3] = list.name, id, body
    given[to + 4], given[to + 5], given[to + 6] = 0, 0, tonumber(lease)
  end
  if was_delivered then
    work_deliver_again(list, ids, progress, given, from)
  end
  if #spans_ms > 0 then
    -- They are the first ones there.
    redis.call('ZREMRANGEBYRANK', slot .. 'ready:' .. list.name, 0, #spans_ms - 1)
    if #leased > 0 then
      work_record(list, DELIVERED, NONE, leased)
    end
    if #once > 0 then
      work_record(list, DELIVERED, NO_ACK, once)
    end
  end
  many('ZADD', slot .. 'due:' .. list.name, held)
  for at = 1, #held, 2 do
    work_foresee_end(list, 'due', tonumber(held[at]))
  end
  return spans_ms, room_bytes
end

local function work_take(list, most, room_bytes, jitter_ms, given)
  most = work_takeable(list, most)
  if most > 0 then
    work_foresee(list)
  end
  local ready, taken = list.slot .. 'ready:' .. list.name, 0
  local run, run_ms = 0, nil
  while taken < most and room_bytes > 0 and looks <= LOOKS_MOST do
    local wanted = math.min(most - taken, TAKE_MOST)
    local ids = redis.call('ZRANGE', ready, 0, (work_is_due(list) and LOOK_MOST or wanted) - 1)
    if #ids == 0 then
      break
    end
    if work_is_due(list) then
      local looked = #ids
      ids = work_living(list, ids)
      if #ids < looked then
        looks = looks + 1
      end
      for at = #ids, wanted + 1, -1 do
        ids[at] = nil
      end
    end
    local spans_ms
    spans_ms, room_bytes = work_lease(list, ids, room_bytes, jitter_ms, given)
    for _, span_ms in ipairs(spans_ms) do
      -- Messages whose leases end together are counted together.
      if list.rate_count > 0 and run > 0 and span_ms ~= run_ms then
        rate_take(list, run)
        run = 0
      end
      run, run_ms = run + 1, span_ms
    end
    if #spans_ms == 0 then
      looks = looks + 1  -- none of them had a message
    end
    taken = taken + #spans_ms
  end
  if taken > 0 then
    list.went = list.went + taken
    list.active_ms = list.now_ms
    list.is_changed = true
    if list.rate_count > 0 then
      rate_take(list, run)
    end
  end
  return taken, room_bytes, looks > LOOKS_MOST
end
