-- purge.lua: messages of a worklist are gone, those of some states; a part of them, if there are
-- very many.
--
-- KEYS     1  slot       HASH  the worklist's slot
-- ARGV     1  family           code of the worklist's family
--          2  now_ms           the broker's clock
--          3  queue            the worklist
--          4  is_waited        1 = a client waits on it, so that it stays
--          5  settle_most      first settle up to this many of each kind
--          6  most             remove up to this many
--          7  skipped          of the last state, as the call before answered; 0 = it is the first
--          8.. state           which to remove; delayed before leased
-- RETURNS  how many living ones went, 1 if there are more to remove, how many to skip then
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  engine/work/decide.py:purge

-- include lib/work_find.lua
-- include lib/work_purge.lua
-- include lib/work_answer.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, queue, is_waited = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local settle_most, most = ARGV[5], tonumber(ARGV[6])

local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
if list == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local living, looked, skipped = 0, 0, tonumber(ARGV[7])
for at = 8, #ARGV do
  if list and looked < most then
    local is_last = at == #ARGV
    local some, more, passed = work_purge(list, ARGV[at], most - looked, is_last and skipped or 0)
    living, looked, skipped = living + some, looked + more, is_last and passed or skipped
  end
end
return work_answer({living, looked >= most and 1 or 0, skipped})
