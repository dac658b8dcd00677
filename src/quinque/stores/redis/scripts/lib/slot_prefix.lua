-- slot_prefix(slot_key): what every key of the slot begins with, quinque:{tag}:
local function slot_prefix(slot_key)
  return string.sub(slot_key, 1, -5)
end
