-- read_bodies(key, ids, room_bytes): the bodies of the first messages, as many as there is room for,
-- and the room that is left; the last body may be larger than it. They are read in growing lots, so
-- that little is read in vain when they are large. And whether there are ids without a body; for each
-- of these the body is false.
local function read_bodies(key, ids, room_bytes)
  local bodies, lot, is_unfound = {}, 8, false
  while #bodies < #ids and room_bytes > 0 do
    local to = math.min(#bodies + lot, #ids)
    for _, body in ipairs(redis.call('HMGET', key, unpack(ids, #bodies + 1, to))) do
      if room_bytes > 0 then
        bodies[#bodies + 1] = body
        is_unfound = is_unfound or not body
        room_bytes = room_bytes - #(body or '')
      end
    end
    lot = math.min(4 * lot, 1000)
  end
  return bodies, room_bytes, is_unfound
end
