-- work_load(slot, ids, now_ms): the messages of these ids, false for each that is not there.
--
--   place, terms   as they came; so is the body, unless it is long (lib/work_body.lua)
--   state          ready, delayed, leased or dead
--   expires_ms     when its life ends; 0 = it does not, or it is dead
--   due_ms         when its lease or its delay ends; 0 = never
--   turn           of one whose lease does not end (lib/work_turns.lua)
--   is_new         until it is ready for the first time
--
-- A message of which `progress` has nothing was delivered once if it is leased and never if it is
-- not, and is new if it is delayed.
--
-- include lib/many.lua
-- include lib/work_close.lua
-- include lib/work_open.lua
-- include lib/work_kept.lua

-- What `progress` has of it: nacks requeues deliveries is_new reason
local function work_read_progress(message, kept)
  local nacks, requeues, deliveries, is_new, reason =
      string.match(kept, '^(%d+) (%d+) (%d+) (%d) (.*)$')
  message.nacks, message.requeues = tonumber(nacks), tonumber(requeues)
  message.deliveries = tonumber(deliveries)
  message.is_new, message.reason = is_new == '1', reason
end

local function work_find_states(list, messages, ids)
  local slot, name = list.slot, list.name
  local expires = many('ZMSCORE', slot .. 'expires:' .. name, ids)
  local due = many('ZMSCORE', slot .. 'due:' .. name, ids)
  local delayed = many('ZMSCORE', slot .. 'delayed:' .. name, ids)
  for at, message in ipairs(messages) do
    message.expires_ms, message.due_ms = tonumber(expires[at] or 0), tonumber(due[at] or 0)
    if not expires[at] then
      local is_dead = redis.call('ZSCORE', slot .. 'dead:' .. name, message.id)
      message.state = is_dead and 'dead' or 'gone'  -- with its worklist: lib/work_end.lua
    elseif not due[at] then
      message.state = 'ready'
    else
      message.state = delayed[at] and 'delayed' or 'leased'
    end
    if message.due_ms >= NEVER_FROM_MS then
      message.turn, message.due_ms = message.due_ms, 0
    end
    if message.expires_ms >= NEVER_FROM_MS then
      message.expires_ms = 0
    end
  end
end

local function work_load(slot, ids, now_ms)
  local found, by_list = {}, {}
  local kept = many('HMGET', slot .. 'messages', ids)
  for at, id in ipairs(ids) do
    found[at] = false
    if kept[at] then
      local place, terms, body = work_unkept(kept[at])
      local list = work_open(slot, terms.queue, now_ms)
      local group = by_list[list] or {messages = {}, ids = {}}
      found[at] = {id = id, list = list, place = place, terms = terms, body = body}
      by_list[list] = group
      group.messages[#group.messages + 1], group.ids[#group.ids + 1] = found[at], id
    end
  end
  for list, group in pairs(by_list) do
    work_find_states(list, group.messages, group.ids)
  end
  local progress = many('HMGET', slot .. 'progress', ids)
  for at, message in ipairs(found) do
    if message and message.state == 'gone' then
      found[at] = false
    elseif message then
      message.has_progress = progress[at] and true
      if progress[at] then
        work_read_progress(message, progress[at])
      else
        message.nacks, message.requeues, message.reason = 0, 0, ''
        message.deliveries = message.state == 'leased' and 1 or 0
        message.is_new = message.state == 'delayed'
      end
    end
  end
  return found
end
