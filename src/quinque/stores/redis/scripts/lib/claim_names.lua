-- claim_names(timer): the queue and the name of a subscription, of which `timers` has
-- "claim:length:queue:name", the length being that of the queue; nothing if it is another timer.
local function claim_names(timer)
  local length, from = string.match(timer, '^claim:(%d+):()')
  if not length then
    return nil
  end
  local to = from + tonumber(length) - 1
  return string.sub(timer, from, to), string.sub(timer, to + 2)
end
