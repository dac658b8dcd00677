-- copy_queues.lua: the queues of a slot, for a copy.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     none
-- RETURNS  queue, code of its family, how many messages it has, of each
-- ERRORS   none
-- SAME AS  stores/embedded/copy_out.py:FolderReader

-- include lib/answer.lua

local slot = slot_prefix(KEYS[1])

local found = {}
local owners = redis.call('HGETALL', slot .. 'queues')
for at = 1, #owners, 2 do
  local name = owners[at]
  local count = 0
  for _, kind in ipairs({'order', 'expires', 'dead'}) do
    count = count + redis.call('ZCARD', slot .. kind .. ':' .. name)
  end
  found[#found + 1] = {name, owners[at + 1], count}
end
return answer(found)
