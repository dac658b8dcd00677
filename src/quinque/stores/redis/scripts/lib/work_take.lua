-- work_take(list, most, room_bytes, jitter_ms, given): up to `most` ready messages of the worklist
-- are leased and appended to `given`: queue, id, body, nacks, requeues. Returns how many, and the
-- room that is left; the last body may be larger than it.
-- SAME AS engine/work/decide.py: room_to_take, expired_first, take; engine/work/rate.py
--
-- include lib/work_load.lua
-- include lib/work_is_over.lua
-- include lib/work_remove.lua
-- include lib/work_lease_end.lua
-- include lib/work_close.lua

local TAKE_MOST = 500  -- looked at together

local function rate_room(list)
  local span_us = list.rate_ms * 1000
  local used_us = math.max(0, list.rate_full_us - list.now_ms * 1000)
  return math.max(0, math.floor((span_us - used_us) * list.rate_count / span_us))
end

local function rate_take(list, count)
  -- Rounded up: the limit is never exceeded.
  local spent_us = math.ceil(count * list.rate_ms * 1000 / list.rate_count)
  list.rate_full_us = math.max(list.rate_full_us, list.now_ms * 1000) + spent_us
end

local function rate_next_ms(list)
  local one_us = math.ceil(list.rate_ms * 1000 / list.rate_count)
  return math.ceil((list.rate_full_us + one_us - list.rate_ms * 1000) / 1000)
end

local function work_lease(message, jitter_ms)
  local list, id = message.list, message.id
  local due_ms = work_lease_end(message.retry_ms, list.now_ms, jitter_ms)
  redis.call('ZREM', list.slot .. 'ready:' .. list.name, id)
  redis.call('ZADD', list.slot .. 'due:' .. list.name, due_ms > 0 and due_ms or NEVER_MS, id)
  redis.call('HSET', list.slot .. 'message:' .. id, 'state', 'leased', 'due_ms', due_ms,
      'deliveries', message.deliveries + 1)
end

local function work_take(list, most, room_bytes, jitter_ms, given)
  if list.is_paused_out then
    return 0, room_bytes
  end
  if list.rate_count > 0 then
    most = math.min(most, rate_room(list))
    if most == 0 and redis.call('ZCARD', list.slot .. 'ready:' .. list.name) > 0 then
      list.refused_until_ms = math.max(rate_next_ms(list), list.now_ms + 1)
      list.is_changed = true
    end
  end
  local taken, run, run_retry_ms = 0, 0, nil
  while taken < most and room_bytes > 0 do
    local ids = redis.call('ZRANGE', list.slot .. 'ready:' .. list.name, 0,
        math.min(most - taken, TAKE_MOST) - 1)
    if #ids == 0 then
      break
    end
    for _, id in ipairs(ids) do
      local message = work_load(list.slot, id, list.now_ms)
      if work_is_over(message, list.now_ms) then
        work_remove(message)
      else
        local body = redis.call('HGET', list.slot .. 'message:' .. id, 'body')
        work_lease(message, jitter_ms)
        for _, value in ipairs({list.name, id, body, message.nacks, message.requeues}) do
          given[#given + 1] = value
        end
        -- Those whose leases end together are counted together.
        if list.rate_count > 0 and run > 0 and message.retry_ms ~= run_retry_ms then
          rate_take(list, run)
          run = 0
        end
        run, run_retry_ms = run + 1, message.retry_ms
        taken = taken + 1
        room_bytes = room_bytes - #body
        if room_bytes <= 0 then
          break
        end
      end
    end
  end
  if taken > 0 then
    list.went = list.went + taken
    list.active_ms = list.now_ms
    list.is_changed = true
    if list.rate_count > 0 then
      rate_take(list, run)
    end
  end
  return taken, room_bytes
end
