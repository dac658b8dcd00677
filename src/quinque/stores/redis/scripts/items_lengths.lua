-- items_lengths.lua: which queues of items have something, added by any client.
--
-- KEYS     1  slot       HASH  the queues' slot
-- ARGV     1  family           code of the queues' family
--          2.. queue           of each
-- RETURNS  those that have
-- ERRORS   none
-- SAME AS  nothing: only its broker adds to an embedded store

-- include lib/argv_rest.lua
-- include lib/answer.lua

local slot, family = slot_prefix(KEYS[1]), ARGV[1]

local found = {}
for _, name in ipairs(argv_rest(2)) do
  if redis.call('HGET', slot .. 'queues', name) == family
      and redis.call('EXISTS', name .. ':queue') == 1 then
    found[#found + 1] = name
  end
end
return answer(found)
