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
--         12  writer           a new one removes all that the one before staged; may be empty
--         13.. piece           packed messages, some of them in each
-- RETURNS  1 if the batch is decided or published, and takes no more; how many messages of this
--          attempt are staged
-- ERRORS   WRONGTYPE           the queue belongs to another family, or the batch does
--          OTHERBATCH          another writer has replaced this one
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
local writer, pieces = ARGV[12], argv_rest(13)

local REPLACED_MOST = 16  -- writers of a batch that are known to be replaced

-- The batch is from this writer. False if another one has replaced it. A batch without `writers` has
-- one whose name is empty.
local function take_over(batch)
  local kept = redis.call('HGET', batch.about, 'writers')
  local writers = kept and cmsgpack.unpack(kept) or batch.is_there and {''} or {}
  if not kept and writer == '' then
    return true
  end
  for at, known in ipairs(writers) do
    if known == writer then
      return at == #writers
    end
  end
  redis.call('UNLINK', batch.parts, batch.rows)
  batch.is_there, batch.chunks, batch.body_bytes = false, 0, 0
  writers[#writers + 1] = writer
  if #writers > REPLACED_MOST + 1 then
    table.remove(writers, 1)
  end
  redis.call('HSET', batch.about, 'writers', cmsgpack.pack(writers))
  return true
end

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

if not take_over(batch) then
  return work_answer(redis.error_reply('OTHERBATCH replaced'))
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
