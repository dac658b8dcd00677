-- lease_times.lua: for how long items were leased, as far as one can tell now.
--
-- KEYS     1  prefix  of the queue's keys: keys.py
-- ARGV     1  most              so many of the newest are looked at
-- RETURNS  for each that has a lease: how long it was, ms, or a second less
-- ERRORS   none
-- SAME AS  nothing

local prefix = KEYS[1]
local leases = {prefix .. 'lease:', prefix .. 'leased_by_session:'}

local times = {}
for _, id in ipairs(redis.call('LRANGE', prefix .. 'processing', 0, ARGV[1] - 1)) do
  for _, lease in ipairs(leases) do
    local key = lease .. id
    local left_ms = redis.call('PTTL', key)
    if left_ms > 0 then
      -- What was not touched for so long was written so long ago. Some policies of eviction do not
      -- keep that time; then it is what is left.
      local idle_s = redis.pcall('OBJECT', 'IDLETIME', key)
      times[#times + 1] = left_ms + (type(idle_s) == 'number' and idle_s * 1000 or 0)
      break
    end
  end
end
return times
