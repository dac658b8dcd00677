-- copy_in_published.lua: it is known which batch was published into a queue last, as it was elsewhere.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  queue            its name
--          2  at_ms            the latest time that is known elsewhere
--          3  stamp_us         the newest stamp that is known elsewhere
--          4.. sink, run, number, until_ms, content  of each run; content is empty if unknown
-- RETURNS  nothing
-- ERRORS   none
-- SAME AS  stores/embedded/staged.py:apply

-- include lib/answer.lua
-- include lib/copy_time.lua
-- include lib/slot_begin.lua

local slot, queue = slot_prefix(KEYS[1]), ARGV[1]

for at = 4, #ARGV, 5 do
  local sink, until_ms = ARGV[at], ARGV[at + 3]
  local run = #queue .. ':' .. queue .. ':' .. #sink .. ':' .. sink .. ':' .. ARGV[at + 1]
  local kept, content = ARGV[at + 2] .. ' ' .. until_ms, ARGV[at + 4]
  redis.call('HSET', slot .. 'published', run, content == '' and kept or kept .. ' ' .. content)
  if until_ms ~= '0' then
    slot_begin(slot)
    redis.call('ZADD', slot .. 'timers', until_ms, 'published:' .. run)
  end
end
copy_time(slot, tonumber(ARGV[2]), tonumber(ARGV[3]))
return answer(false)
