-- work_page(list, chunk, after, till, count, states, leased): rows of up to `count` messages of the
-- worklist with a place after one and up to another are in the chunk: those in one of the states,
-- and those of `leased`, which are ids, that are still leased. Returns the place of the last that
-- was looked at, and whether there are no more.
--
-- include lib/claim_chunk.lua
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/work_load.lua

local WORK_PAGE_STATES = {ready = 0, delayed = 1, leased = 2, dead = 3}  -- as model/states.py has them
local WORK_PAGE_WAS_READY = 1  -- model/rows.py:WAS_READY

-- The first messages in one of these states, in the order of places: their ids, places and states;
-- and whether those are all.
local function work_page_ids(list, after, till, count, states, leased)
  local found, sources, is_all = {}, 0, true
  for state in string.gmatch(states, '%w+') do
    local rows = redis.call('ZRANGEBYSCORE', list.slot .. state .. ':' .. list.name, '(' .. after,
        till, 'WITHSCORES', 'LIMIT', 0, count)
    for at = 1, #rows, 2 do
      found[#found + 1] = {rows[at], tonumber(rows[at + 1]), state}
    end
    sources, is_all = sources + math.min(#rows, 1), is_all and #rows < 2 * count
  end
  local due = many('ZMSCORE', list.slot .. 'due:' .. list.name, leased)
  local delayed = many('ZMSCORE', list.slot .. 'delayed:' .. list.name, leased)
  for at, kept in ipairs(many('HMGET', list.slot .. 'messages', leased)) do
    if kept and due[at] and not delayed[at] then
      found[#found + 1] = {leased[at], tonumber((work_unkept(kept))), 'leased'}
    end
  end
  if sources + math.min(#leased, 1) > 1 then
    table.sort(found, function(one, other) return one[2] < other[2] end)
  end
  local ids, places, states_of = {}, {}, {}
  for at = 1, math.min(#found, count) do
    ids[at], places[at], states_of[at] = found[at][1], found[at][2], found[at][3]
  end
  return ids, places, states_of, is_all and #found <= count
end

-- How often it was delivered, and the last fields of its row, which most messages have alike.
local function work_page_tail(terms, state, due_ms, kept)
  local tails = terms.tails or {}
  local message = {nacks = 0, requeues = 0, reason = '', is_new = state == 'delayed'}
  message.deliveries = state == 'leased' and 1 or 0
  if kept then
    work_read_progress(message, kept)
  elseif due_ms == 0 and tails[state] then
    return message.deliveries, tails[state]
  end
  local listed = {terms.ttl_ms, terms.delay_ms, terms.retry_ms, terms.max_deliveries, terms.replicas}
  local tail = claim_tail(WORK_PAGE_STATES[state], due_ms, message.nacks, message.requeues,
      message.reason, terms.key, listed, message.is_new and 0 or WORK_PAGE_WAS_READY)
  if due_ms == 0 and not kept then
    tails[state], terms.tails = tail, tails
  end
  return message.deliveries, tail
end

local function work_page(list, chunk, after, till, count, states, leased)
  local ids, places, states_of, is_all = work_page_ids(list, after, till, count, states, leased)
  local slot, last = list.slot, tonumber(after)
  local kept = many('HMGET', slot .. 'messages', ids)
  local expires = many('ZMSCORE', slot .. 'expires:' .. list.name, ids)
  local due = is_there(slot .. 'due:' .. list.name) and many('ZMSCORE', slot .. 'due:' .. list.name,
      ids) or {}
  local progress = is_there(slot .. 'progress') and many('HMGET', slot .. 'progress', ids) or {}
  for at, id in ipairs(ids) do
    local expires_ms, due_ms = tonumber(expires[at] or 0), tonumber(due[at] or 0)
    if kept[at] and (expires_ms == 0 or expires_ms > list.now_ms) then
      local _, terms, body = work_unkept(kept[at])
      local attempt, tail = work_page_tail(terms, states_of[at],
          due_ms < NEVER_FROM_MS and due_ms or 0, progress[at])
      if not claim_row(chunk, id, body or redis.call('HGET', slot .. 'bodies', id), attempt,
          places[at], expires_ms < NEVER_FROM_MS and expires_ms or 0, tail) then
        return last, false
      end
    end
    last = places[at]
  end
  return last, is_all
end
