-- complete.lua: finish and remove messages of a worklist whose ids are its own.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  is_leased        1 = only those that are leased
--          7.. id              of each message, none twice
-- RETURNS  for each id 1 if it was removed, else 0; nothing if the worklist does not exist
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  stores/embedded/own_operations.py:OwnOperations

-- include lib/argv_rest.lua
-- include lib/is_there.lua
-- include lib/many.lua
-- include lib/work_find.lua
-- include lib/work_is_over.lua
-- include lib/work_load.lua
-- include lib/work_remove.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, is_leased = ARGV[5], ARGV[6] == '1'
local ids = argv_rest(7)

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return work_answer(false)
end

local NO_TERMS = {}

-- What is needed to remove the message of each id, false where there is none to be removed.
local function find_briefly()
  local found = {}
  for at, turn in ipairs(many('ZMSCORE', slot .. 'due:' .. queue, ids)) do
    -- Only what is delayed is due some day.
    local is_so = turn and tonumber(turn) >= NEVER_FROM_MS
    found[at] = is_so and {id = ids[at], list = list, terms = NO_TERMS} or false
  end
  return found
end

local function find_wholly()
  local found = {}
  for at, message in ipairs(work_load(slot, ids, now_ms)) do
    found[at] = message and message.list == list and not work_is_over(message, now_ms)
        and (not is_leased or message.state == 'leased') and message
  end
  return found
end

local is_brief = is_leased and not work_is_due(list) and not is_there(slot .. 'keys:' .. queue)
local done, gone = {}, {}
for at, message in ipairs(is_brief and find_briefly() or find_wholly()) do
  done[at] = message and 1 or 0
  if message then
    gone[#gone + 1] = message
  end
end
work_remove(list, gone, ACKED, NONE)
return work_answer(done)
