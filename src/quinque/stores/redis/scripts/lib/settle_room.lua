-- settle_room(most): how many of up to `most` due messages the script may still settle. A script that
-- is about many queues settles no more messages than one that is about a single queue.
--
-- settle_note(count): this many were settled. settle_is_spent(): whether no more may be.

local SETTLED_MOST = 1000  -- messages: some 8 ms
local settled_count = 0

local function settle_room(most)
  return math.max(0, math.min(tonumber(most), SETTLED_MOST - settled_count))
end

local function settle_note(count)
  settled_count = settled_count + count
end

local function settle_is_spent()
  return settled_count >= SETTLED_MOST
end
