-- copy_queues.lua: the queues of a slot, for a copy, and names of which only claims or published
-- batches are known.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     none
-- RETURNS  queue, code of its family (0 = there is no such queue), how many messages it has, of each
-- ERRORS   none
-- SAME AS  stores/embedded/copy_out.py:FolderReader

-- include lib/answer.lua
-- include lib/claim_names.lua
-- include lib/items_count.lua
-- include lib/stage_names.lua

local slot = slot_prefix(KEYS[1])

local found, known = {}, {}
local owners = redis.call('HGETALL', slot .. 'queues')
for at = 1, #owners, 2 do
  local name = owners[at]
  local count = 0
  if owners[at + 1] == '4' then
    count = items_count(name)
  end
  if owners[at + 1] == '5' then
    count = redis.call('HLEN', slot .. 'tasks:' .. name)
  else
    for _, kind in ipairs({'order', 'expires', 'dead'}) do
      count = count + redis.call('ZCARD', slot .. kind .. ':' .. name)
    end
  end
  found[#found + 1] = {name, owners[at + 1], count}
  known[name] = true
end

local function note(name)
  if name and not known[name] then
    found[#found + 1] = {name, '0', 0}
    known[name] = true
  end
end

for _, timer in ipairs(redis.call('ZRANGE', slot .. 'timers', 0, -1)) do
  note((claim_names(timer)))
end
for _, run in ipairs(redis.call('HKEYS', slot .. 'published')) do
  note((stage_run_names(run)))
end
return answer(found)
