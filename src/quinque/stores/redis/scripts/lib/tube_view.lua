-- tube_view(tube): what is shown of a tube, of which all changes are kept: name, kind, ttl_ms, ttr_ms,
-- pri, capacity, width, is_temporary, options, order; how many are ready, taken, delayed, buried; how
-- many are done, and the calls.
-- SAME AS model/tube_ops.py: TubeView, CALLS
local function tube_view(tube)
  local view = redis.call('HMGET', tube.slot .. 'worklist:' .. tube.name, 'kind', 'ttl_ms', 'ttr_ms',
      'pri', 'capacity', 'width', 'is_temporary', 'options', 'order')
  table.insert(view, 1, tube.name)
  local taken = redis.call('HLEN', tube.taken)
  local delayed = redis.call('ZCARD', tube.slot .. 'delayed:' .. tube.name)
  local buried = redis.call('ZCARD', tube.slot .. 'dead:' .. tube.name)
  view[11] = redis.call('HLEN', tube.tasks) - taken - delayed - buried
  view[12], view[13], view[14] = taken, delayed, buried
  local counted = redis.call('HMGET', tube.slot .. 'worklist:' .. tube.name, 'done', 'put', 'take',
      'ack', 'release', 'bury', 'kick', 'delete', 'touch', 'ttl', 'ttr', 'delay')
  for at = 1, 12 do
    view[14 + at] = counted[at] or 0
  end
  return view
end
