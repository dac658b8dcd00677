-- stage_add.lua: a chunk of messages lies ready to be published.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  sink             whose batch it is
--          4  run              of the sink
--          5  number           of the batch in the run
--          6  family           code of the queue's family
--          7  part             who staged it: part
--          8  attempt          and attempt
--          9  chunk            which of theirs it is
--         10  messages         how many are in it
--         11  body_bytes       how large their bodies are
--         12.. piece           packed messages, some of them in each
-- RETURNS  1 if the batch is decided or published, and takes no more; how many messages of this
--          attempt are staged
-- ERRORS   WRONGTYPE           the queue belongs to another family, or the batch does
-- SAME AS  stores/embedded/stages.py:_stage

-- include lib/argv_rest.lua
-- include lib/find_queue.lua
-- include lib/many.lua
-- include lib/stage_batch.lua
-- include lib/stage_keep.lua
-- include lib/work_answer.lua

local slot, now_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local family, attempt = ARGV[6], ARGV[7] .. ' ' .. ARGV[8]
local chunk, messages, body_bytes = attempt .. ' ' .. ARGV[9], ARGV[10], tonumber(ARGV[11])
local pieces = argv_rest(12)

if find_queue(slot, queue, family, now_ms) == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
local batch = stage_batch(slot, queue, ARGV[3], ARGV[4], ARGV[5], now_ms)
if batch.is_published or batch.is_decided then
  return work_answer({1, 0})
end

if batch.is_there and (batch.family or family) ~= family then
  wrong_type('batch', batch.family, ARGV[3])
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end

batch.family = family
if not batch.is_there then
  batch.began_ms = now_ms
end
local before = redis.call('HGET', batch.parts, chunk)
if before then
  local count, had, had_bytes = string.match(before, '^(%d+) (%d+) (%d+)$')
  for at = 1, tonumber(count) do
    redis.call('HDEL', batch.rows, chunk .. ' ' .. at)
  end
  redis.call('HINCRBY', batch.parts, attempt, 0 - tonumber(had))
  batch.chunks, batch.body_bytes = batch.chunks - 1, batch.body_bytes - tonumber(had_bytes)
end
for at, piece in ipairs(pieces) do
  redis.call('HSET', batch.rows, chunk .. ' ' .. at, piece)
end
redis.call('HSET', batch.parts, chunk, table.concat({#pieces, messages, ARGV[11]}, ' '))
batch.chunks, batch.body_bytes = batch.chunks + 1, batch.body_bytes + body_bytes
stage_keep(batch, now_ms)
return work_answer({0, redis.call('HINCRBY', batch.parts, attempt, messages)})
