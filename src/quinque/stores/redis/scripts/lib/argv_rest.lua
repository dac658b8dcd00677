-- argv_rest(from): ARGV from there on. unpack() would do for some 8,000 values only.
local function argv_rest(from)
  local rest = {}
  for at = from, #ARGV do
    rest[at - from + 1] = ARGV[at]
  end
  return rest
end
