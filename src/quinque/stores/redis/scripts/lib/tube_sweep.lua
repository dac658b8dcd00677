-- tube_sweep(slot, key, queue, family, now_ms, most): remove tasks of a HASH that is in no tube, and
-- record that: up to `most` of them, or all. Returns whether there are more.
--
-- include lib/hash_some.lua
-- include lib/many.lua
-- include lib/tube_record.lua
local function tube_sweep(slot, key, queue, family, now_ms, most)
  local tube, ids = {slot = slot, name = queue, family = family, now_ms = now_ms}, {}
  if most then
    local found = hash_some(key, most)
    for at = 1, #found, 2 do
      ids[#ids + 1] = found[at]
    end
  elseif is_recording then
    ids = redis.call('HKEYS', key)
  end
  table.sort(ids)
  tube_record(tube, REMOVED, PURGED, ids)
  many('HDEL', key, ids)
  return redis.call('EXISTS', key) == 1
end
