-- items_read.lua: a part of a list of a queue of items, for deep cleaning.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many leases
--          6  kind             `queue` or `processing`
--          7  from             the place of the first, from the left
--          8  count            how many
-- RETURNS  ids; for each a letter: i if there is such an item, else g
-- ERRORS   WRONGTYPE           the name is another family's, or its keys are something else
-- SAME AS  model/own_ops.py:CleanItems

-- include lib/items_find.lua
-- include lib/items_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, kind, from, count = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])

local list = items_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return items_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif not list then
  return items_answer({{}, ''})
end
local ids, letters = redis.call('LRANGE', list[kind], from, from + count - 1), {}
for at, id in ipairs(ids) do
  letters[at] = redis.call('EXISTS', list.item .. id) == 1 and 'i' or 'g'
end
return items_answer({ids, table.concat(letters)})
