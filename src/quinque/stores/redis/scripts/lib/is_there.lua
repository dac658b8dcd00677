-- is_there(key): whether there is such a key: less work than many values asked of one that is not.
local function is_there(key)
  return redis.call('EXISTS', key) == 1
end
