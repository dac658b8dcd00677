-- stage_move(target, is_worklist, runs, from_us, step_us): messages of a staged piece are in it; how many, and
-- how many there were: what has an id or a key that is taken is left out. The piece is a list of
-- runs: ttl_ms, delay_ms, retry_ms, max_deliveries, name, ids, bodies. Ids that are numbers are made
-- when the messages are put in.
--
-- stage_target(slot, queue, family, is_worklist, now_ms, settle_most, is_waited): the worklist or feed
-- that messages are to be put into, false for a worklist that is not there; nothing if the name belongs
-- to another family.
--
-- include lib/feed_keys.lua
-- include lib/feed_open.lua
-- include lib/feed_put_in.lua
-- include lib/work_find.lua
-- include lib/work_key_holder.lua
-- include lib/work_put_in.lua

local function stage_target(slot, queue, family, is_worklist, now_ms, settle_most, is_waited)
  if is_worklist then
    return work_find(slot, queue, family, now_ms, settle_most, is_waited)
  end
  local feed = feed_keys(slot, queue)
  return feed_open(feed, family, now_ms, settle_most) and feed or nil
end

local function stage_put_work(list, run, from_us)
  local key = run[5]
  if key and work_key_holder(list, key) then
    return false
  end
  local terms = {
    ttl_ms = run[1],
    delay_ms = run[2],
    retry_ms = run[3],
    max_deliveries = run[4],
    replicas = 1,
    key = key or false,
  }
  return work_put_in(list, terms, run[6], run[7], from_us, STAGED)
end

local function stage_put_feed(feed, run, from_us, step_us)
  local expires_ms = run[1] > 0 and feed.now_ms + run[1] or 0
  return feed_put_in(feed, run[7], from_us, step_us, expires_ms, {id = run[5], reason = STAGED})
end

local function stage_move(target, is_worklist, runs, from_us, step_us)
  local moved, count = 0, 0
  for _, run in ipairs(runs) do
    local is_put
    if is_worklist then
      is_put = stage_put_work(target, run, from_us)
    else
      is_put = stage_put_feed(target, run, from_us, step_us)
    end
    count = count + #run[7]
    moved = moved + (is_put and #run[7] or 0)
  end
  return moved, count
end
