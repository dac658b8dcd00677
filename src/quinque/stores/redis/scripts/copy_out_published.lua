-- copy_out_published.lua: which batches were published into a queue last, for a copy.
--
-- KEYS     1  slot       HASH  the slot
-- ARGV     1  queue            its name
-- RETURNS  of each run: sink, run, number, until when that is remembered (ms, 0 = without end),
--          content (empty if unknown)
-- ERRORS   none
-- SAME AS  stores/embedded/kept.py:published_kept

-- include lib/answer.lua
-- include lib/stage_names.lua

local slot = slot_prefix(KEYS[1])

local found = {}
local published = redis.call('HGETALL', slot .. 'published')
for at = 1, #published, 2 do
  local queue, sink, run = stage_run_names(published[at])
  if queue == ARGV[1] then
    local number, until_ms, content = string.match(published[at + 1], '^(%d+) (%d+) ?(.*)$')
    found[#found + 1] = {sink, run, tonumber(number), tonumber(until_ms), content}
  end
end
return answer(found)
