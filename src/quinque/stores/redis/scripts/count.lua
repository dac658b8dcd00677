-- count.lua: how many messages of feeds stand where, for every group there is.
--
-- KEYS     1  slot       HASH  the slot of the feeds
-- ARGV     1  family           code of the family
--          2  now_ms           the broker's clock
--          3  settle_most      first settle up to this many due messages of each
--          4.. queue           of each; without any, all that have messages are counted
-- RETURNS  for each: queue, total, and for each group: group, leased, redo, done, available
-- ERRORS   WRONGTYPE           a queue of that name belongs to another family
-- SAME AS  engine/feed/decide.py:count

-- include lib/answer.lua
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/argv_rest.lua

local slot = slot_prefix(KEYS[1])
local family, now_ms, settle_most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local names = argv_rest(4)
local is_named = #names > 0
if not is_named then
  local owners = redis.call('HGETALL', slot .. 'queues')
  for at = 1, #owners, 2 do
    if owners[at + 1] == family then
      names[#names + 1] = owners[at]
    end
  end
end

-- In the order in which they came.
local function groups_of(feed)
  local groups = {}
  local kept = redis.call('HGETALL', feed.groups)
  for at = 1, #kept, 2 do
    local cursor, number = feed_cursor(kept[at + 1])
    groups[#groups + 1] = {name = kept[at], cursor = cursor, number = number}
  end
  table.sort(groups, function(one, other) return one.number < other.number end)
  return groups
end

local function count(feed)
  local total = redis.call('ZCARD', feed.order)
  local row = {feed.queue, total}
  for _, group in ipairs(groups_of(feed)) do
    local keys = feed_group_keys(feed, group.name)
    local upto = string.format('%.0f', group.cursor)
    local passed = redis.call('ZCOUNT', feed.order, '-inf', upto)
    if passed > 0 then
      local leased = redis.call('ZCARD', keys.held)
      local again = redis.call('ZCARD', keys.again)
      local fresh = redis.call('ZCOUNT', keys.deliveries, 0, 0)
      for _, number in ipairs({group.name, leased, again - fresh, passed - leased - again,
          total - passed + fresh}) do
        row[#row + 1] = number
      end
    end
  end
  return row
end

local rows = {}
for _, name in ipairs(names) do
  local feed = feed_keys(slot, name)
  if not feed_open(feed, family, now_ms, settle_most) then
    return answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
  end
  local row = count(feed)
  if is_named or row[2] > 0 then
    rows[#rows + 1] = row
  end
end
return answer(rows)
