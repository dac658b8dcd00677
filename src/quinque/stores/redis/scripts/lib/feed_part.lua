-- feed_part(feed, ids, now_ms): those of the messages that live, and those that have expired.
--
-- include lib/many.lua

local function feed_part(feed, ids, now_ms)
  local living, expired = {}, {}
  local expiries = many('ZMSCORE', feed.expiries, ids)
  for at, id in ipairs(ids) do
    local expires_ms = tonumber(expiries[at])
    if expires_ms and expires_ms <= now_ms then
      expired[#expired + 1] = id
    else
      living[#living + 1] = id
    end
  end
  return living, expired
end
