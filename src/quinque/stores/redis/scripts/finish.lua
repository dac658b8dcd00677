-- finish.lua: messages of a slot are gone, whatever their state.
--
-- KEYS     1  slot       HASH  the messages' slot
-- ARGV     1  now_ms           the broker's clock
--          2  settle_most      first settle up to this many of each kind
--          3  is_ack           0 = they were not worked, and are not wanted any more
--          4.. id              of each message, none twice
-- RETURNS  for each id 1 if the message was there, else 0
-- ERRORS   none
-- SAME AS  engine/work/decide.py:finish

-- include lib/argv_rest.lua
-- include lib/many.lua
-- include lib/work_is_due.lua
-- include lib/work_kept.lua
-- include lib/work_open.lua
-- include lib/work_remove.lua
-- include rarely lib/work_find_messages.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local now_ms, settle_most, is_ack = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local ids = argv_rest(4)

-- Whether a message of the worklist lives and is not dead. One that is in no worklist any more is
-- kept until sweep.lua removes it.
local function has_life(list, id)
  return redis.call('ZSCORE', slot .. 'expires:' .. list.name, id)
end

-- What is needed to remove the messages; nil if something is due in their worklists, or one of them
-- may be dead or gone.
local function find_briefly()
  local found, kept = {}, many('HMGET', slot .. 'messages', ids)
  for at, id in ipairs(ids) do
    found[at] = false
    if kept[at] then
      local _, terms = work_unkept(kept[at])
      local list = work_open(slot, terms.queue, now_ms)
      if work_is_due(list) or not has_life(list, id) then
        return nil
      end
      found[at] = {id = id, list = list, terms = terms}
    end
  end
  return found
end

local done, by_list = {}, {}
for at, message in ipairs(find_briefly() or work_find_messages(slot, ids, now_ms, settle_most)) do
  done[at] = message and 1 or 0
  if message then
    local gone = by_list[message.list] or {}
    gone[#gone + 1] = message
    by_list[message.list] = gone
  end
end
for list, gone in pairs(by_list) do
  local gone_ids = {}
  for at, message in ipairs(gone) do
    gone_ids[at] = message.id
  end
  work_foresee(list, gone_ids)
end
for list, gone in pairs(by_list) do
  work_remove(list, gone, is_ack and ACKED or REMOVED, is_ack and NONE or DELETED)
end
return work_answer(done)
