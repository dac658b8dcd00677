-- feed_held(feed, keys, ids, now_ms): of each message whether the group of these keys holds it, and
-- whether it holds one of that id that was flushed since. SAME AS engine/feed/decide.py:_held
--
-- include lib/is_there.lua
-- include lib/many.lua

local function feed_held(feed, keys, ids, now_ms)
  -- Where all that has expired is settled, it is in nobody's hands.
  local expiries = feed.is_flooded and many('ZMSCORE', feed.expiries, ids) or {}
  local is_held, is_detached = {}, {}
  for at, deadline_ms in ipairs(many('ZMSCORE', keys.held, ids)) do
    local expires_ms = tonumber(expiries[at])
    is_held[at] = deadline_ms and tonumber(deadline_ms) > now_ms
        and not (expires_ms and expires_ms <= now_ms)
  end
  if is_there(keys.detached) then
    expiries = many('ZMSCORE', keys.detached_expiries, ids)
    for at, deadline_ms in ipairs(many('ZMSCORE', keys.detached, ids)) do
      local expires_ms = tonumber(expiries[at])
      is_detached[at] = deadline_ms and tonumber(deadline_ms) > now_ms
          and not (expires_ms and expires_ms <= now_ms)
    end
  end
  return is_held, is_detached
end
