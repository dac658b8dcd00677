-- hash_some(key, most): some fields and values of a HASH, of about `most` fields; of one that is there
-- at least one. They are found soon, even if many were removed before.
local function hash_some(key, most)
  local cursor, found = '0', {}
  repeat
    cursor, found = unpack(redis.call('HSCAN', key, cursor, 'COUNT', most))
  until #found > 0 or cursor == '0'
  return found
end
