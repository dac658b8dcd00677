-- work_terms(text): what a message was added with and keeps for good, from the text that is kept:
--
--   ttl_ms delay_ms retry_ms max_deliveries replicas length key queue
--
-- with a space after each but the key; the length is that of the key, -1 = no key. Messages that were
-- added together have the same text, which is read once.
--
-- work_terms_text(...): that text.
local known_terms = {}

local function work_terms_text(ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, key, queue)
  -- As long as this a hash is a table, even if it is small, and can be scanned step by step.
  local numbers = string.format('%048d %d %d %d %d %d ', ttl_ms, delay_ms, retry_ms, max_deliveries,
      replicas, key and #key or -1)
  return numbers .. (key or '') .. queue
end

local function work_terms(text)
  local terms = known_terms[text]
  if not terms then
    local ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, length, names =
        string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (-?%d+) (.*)$')
    length = tonumber(length)
    terms = {
      ttl_ms = tonumber(ttl_ms),
      delay_ms = tonumber(delay_ms),
      retry_ms = tonumber(retry_ms),
      max_deliveries = tonumber(max_deliveries),
      replicas = tonumber(replicas),
      key = length >= 0 and string.sub(names, 1, length),
      queue = string.sub(names, math.max(length, 0) + 1),
    }
    known_terms[text] = terms
  end
  return terms
end
