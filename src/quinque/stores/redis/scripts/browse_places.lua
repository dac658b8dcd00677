-- browse_places.lua: messages of a queue in the order of places: one chunk of them.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  family           code of the queue's family
--          2  now_ms           the broker's clock
--          3  queue            its name
--          4  is_waited        1 = a client waits on it, so that it stays; '' = it is a feed
--          5  settle_most      first settle up to this many of each kind
--          6  after            only those of a later place
--          7  until            and of no later one than this; +inf = any
--          8  count            up to this many
--          9  states           of a worklist, those wanted of ready, delayed and dead, with commas
--         10.. id              of messages that may be leased, and if so are wanted as well
-- RETURNS  the rows, each packed; how many; the place of the last that was looked at; 1 if there are no
--          more
-- ERRORS   WRONGTYPE           the name belongs to another family
-- SAME AS  model/look_ops.py:BrowsePlaces

-- include lib/argv_rest.lua
-- include lib/claim_chunk.lua
-- include lib/feed_page.lua
-- include lib/work_page.lua
-- include lib/feed_open.lua
-- include lib/work_find.lua
-- include lib/work_answer.lua

local slot, family, now_ms, queue = slot_prefix(KEYS[1]), ARGV[1], tonumber(ARGV[2]), ARGV[3]
local is_feed, is_waited, settle_most = ARGV[4] == '', ARGV[4] == '1', tonumber(ARGV[5])
local after, till, count, states = ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]

local chunk, last, is_last = claim_chunk(), tonumber(after), true
if is_feed then
  local feed = feed_keys(slot, queue)
  if not feed_open(feed, family, now_ms, settle_most) then
    return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  end
  last, is_last = feed_page(feed, chunk, after, till, count)
else
  local list = work_find(slot, queue, family, now_ms, settle_most, is_waited)
  if list == nil then
    return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  elseif list then
    last, is_last = work_page(list, chunk, after, till, count, states, argv_rest(10))
  end
end
return work_answer({table.concat(chunk.parts), #chunk.ids, last, is_last and 1 or 0})
