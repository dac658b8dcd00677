-- work_takeable(list, most): how many of up to `most` ready messages the worklist may hand out now.
-- SAME AS engine/work/decide.py:room_to_take
--
-- include lib/rate_room.lua
-- include lib/rate_next_ms.lua
local function work_takeable(list, most)
  if list.is_paused_out then
    return 0
  end
  most = math.min(most, redis.call('ZCARD', list.slot .. 'ready:' .. list.name))
  if list.rate_count > 0 then
    local room = math.min(most, rate_room(list))
    if room == 0 and most > 0 then
      list.refused_until_ms = math.max(rate_next_ms(list), list.now_ms + 1)
      list.is_changed = true
    end
    return room
  end
  return most
end
