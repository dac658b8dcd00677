-- claim_subscription(slot, queue, name): the subscription of that name on the queue; nothing if it
-- does not exist. Its claims that are not purged are `first` to `last`:
--
--   first … closing … settled … last
--   ├─ wholly ─┤├─ to be ─┤├─ open ─┤     settled or forfeited; the last one may be filling
--
-- `closing` is the first that is settled or forfeited and has messages of which that is not true yet;
-- `ended_ms` is when the first one was. `created_us` is when it was first opened; 0 = unknown.
-- `ends` has the states of claims that this script has closed, by number.
local function claim_subscription(slot, queue, name)
  local names = #queue .. ':' .. queue .. ':' .. name
  local key = slot .. 'subscription:' .. names
  local kept = redis.call('HMGET', key, 'family', 'is_worklist', 'group', 'epoch', 'first', 'closing',
      'settled', 'last', 'lease_ms', 'release_ms', 'renewed_ms', 'ended_ms', 'created_us')
  if not kept[1] then
    return nil
  end
  return {
    slot = slot,
    queue = queue,
    name = name,
    names = names,
    key = key,
    family = kept[1],
    is_worklist = kept[2] == '1',
    group = kept[3],
    epoch = tonumber(kept[4]),
    first = tonumber(kept[5]),
    closing = tonumber(kept[6]),
    settled = tonumber(kept[7]),
    last = tonumber(kept[8]),
    lease_ms = tonumber(kept[9]),
    release_ms = tonumber(kept[10]),
    renewed_ms = tonumber(kept[11]),
    ended_ms = tonumber(kept[12]),
    created_us = tonumber(kept[13] or 0),
    ends = {},
  }
end
