-- work_load(slot, id, now_ms): the message, or nil. What is 0 or empty may not be on record.
--
--   state    ready, delayed, leased or dead: also the kind of the ZSET it is in, but for leased
--   due_ms   when its lease or its delay ends; 0 = never
--   is_new   until it is ready for the first time
--
-- include lib/work_open.lua
local function work_load(slot, id, now_ms)
  local fields = redis.call('HMGET', slot .. 'message:' .. id, 'queue', 'state', 'place',
      'expires_ms', 'due_ms', 'ttl_ms', 'delay_ms', 'retry_ms', 'max_deliveries', 'replicas',
      'nacks', 'requeues', 'deliveries', 'is_new', 'reason', 'key')
  if not fields[1] then
    return nil
  end
  return {
    id = id,
    list = work_open(slot, fields[1], now_ms),
    state = fields[2],
    place = tonumber(fields[3]),
    expires_ms = tonumber(fields[4] or 0),
    due_ms = tonumber(fields[5] or 0),
    ttl_ms = tonumber(fields[6]),
    delay_ms = tonumber(fields[7] or 0),
    retry_ms = tonumber(fields[8] or 0),
    max_deliveries = tonumber(fields[9] or 0),
    replicas = tonumber(fields[10] or 1),
    nacks = tonumber(fields[11] or 0),
    requeues = tonumber(fields[12] or 0),
    deliveries = tonumber(fields[13] or 0),
    is_new = fields[14] == '1',
    reason = fields[15] or '',
    key = fields[16],
  }
end
