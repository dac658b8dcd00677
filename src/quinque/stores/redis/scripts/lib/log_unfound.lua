-- log_unfound(queue, ids): the log of Redis says that these ids left the queue, because none of them has
-- a message: only a program that is no broker makes such ids, or lost data.
-- SAME AS nothing: an embedded store has no ids apart from their messages

local UNFOUND_SHOWN, LOG_WARNING = 10, 3

local function log_unfound(queue, ids)
  redis.log(LOG_WARNING, string.format('quinque: dropped %d ids of queue %q without a message: %s',
      #ids, queue, table.concat(ids, ' ', 1, math.min(#ids, UNFOUND_SHOWN))))
end
