-- feed_held(feed, keys, ids, now_ms): of each message until when the group of these keys holds it, and
-- until when it holds one of that id that was flushed since; false or nothing where it does not.
-- SAME AS engine/feed/decide.py:_held
--
-- include lib/is_there.lua
-- include lib/many.lua

local function feed_held(feed, keys, ids, now_ms)
  -- If all expired messages are settled, no group holds one.
  local expiries = feed.is_flooded and many('ZMSCORE', feed.expiries, ids) or {}
  local held, detached = {}, {}
  local function still(deadline_ms, expires_ms)
    return deadline_ms and deadline_ms > now_ms
        and not (expires_ms and expires_ms <= now_ms) and deadline_ms
  end
  for at, deadline_ms in ipairs(many('ZMSCORE', keys.held, ids)) do
    held[at] = still(tonumber(deadline_ms), tonumber(expiries[at]))
  end
  if is_there(keys.detached) then
    expiries = many('ZMSCORE', keys.detached_expiries, ids)
    for at, deadline_ms in ipairs(many('ZMSCORE', keys.detached, ids)) do
      detached[at] = still(tonumber(deadline_ms), tonumber(expiries[at]))
    end
  end
  return held, detached
end
