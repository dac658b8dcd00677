-- items_find(slot, name, family, now_ms, most, is_waited): the queue of items as it is now, false if
-- it is not there, nil if the name, or a key of Redis Work Queue's, is something else, or if the user
-- of Redis has no right to the keys: then WRONG_TYPE tells that. Enters a
-- queue that only clients of Redis Work Queue have used so far. Removes a queue that has been idle
-- for long, unless a client waits on it; if that is not known (nil) it is_idle.
-- SAME AS stores/embedded/worklists.py:settled
--
-- include lib/find_queue.lua
-- include lib/items_close.lua
-- include rarely lib/items_settle.lua
-- include lib/slot_begin.lua

local function items_make(slot, name, family, now_ms)
  slot_begin(slot)
  redis.call('HSET', slot .. 'queues', name, family)
  redis.call('ZADD', slot .. 'worklists',
      redis.call('HINCRBY', slot .. 'slot', 'last_number', 1), name)
  redis.call('HSET', slot .. 'slot', 'has_items', 1)
  redis.call('HSET', slot .. 'worklist:' .. name, 'since_ms', now_ms, 'family', family)
  local list = items_open(slot, name, now_ms)
  list.is_changed = true
  return list
end

local function items_find(slot, name, family, now_ms, most, is_waited)
  local found = find_queue(slot, name, family, now_ms)
  local queued = redis.pcall('LLEN', name .. ':queue')
  local held = redis.pcall('LLEN', name .. ':processing')
  if found == nil or type(queued) == 'table' or type(held) == 'table' then
    if found ~= nil then
      local key = type(queued) == 'table' and name .. ':queue' or name .. ':processing'
      local why = type(queued) == 'table' and queued.err or held.err
      if string.find(why, 'WRONGTYPE', 1, true) == 1 then
        wrong_type('key', '', key)
      elseif string.find(why, ' access ', 1, true) then
        wrong_type('right', '', name)
      else
        redis.call('LLEN', key)
      end
    end
    return nil
  elseif not found then
    return queued + held > 0 and items_make(slot, name, family, now_ms)
  end
  local list = items_open(slot, name, now_ms)
  if list.alarm_ms <= now_ms then
    items_settle(list, most)
    if list.active_ms + QUEUE_IDLE_MOST_MS <= now_ms and work_is_vacant(slot, name) then
      if is_waited == false then
        work_forget(slot, name)
        opened_items[name] = nil
        return false
      elseif is_waited then
        list.spared_ms = now_ms
      end
      list.is_idle = true
    end
  end
  return list
end
