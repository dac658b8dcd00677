-- feed_keys(slot, queue): the keys of a feed, by what they hold (keys.py says more of each), from
-- the prefix of its slot. Besides, what a script finds out about it:
--   is_there     it exists
--   family       code of its family
--   now_ms       the time for which it was settled
--   is_flooded   more is due than was settled, so what is read may have expired or lapsed
--   rounds       how often expired messages were cleared out of the way (feed_round.lua)
local function feed_keys(slot, queue)
  return {
    queue = queue,
    prefix = slot,
    slot = slot .. 'slot',
    queues = slot .. 'queues',
    alarms = slot .. 'alarms',
    about = slot .. 'feed:' .. queue,
    order = slot .. 'order:' .. queue,
    bodies = slot .. 'bodies:' .. queue,
    expiries = slot .. 'expiries:' .. queue,
    singles = slot .. 'singles:' .. queue,
    groups = slot .. 'groups:' .. queue,
    deadlines = slot .. 'deadlines:' .. queue,
    is_there = false,
    is_flooded = false,
    rounds = 0,
  }
end
