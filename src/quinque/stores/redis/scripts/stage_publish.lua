-- stage_publish.lua: decide what a batch consists of, if it is not decided, and put a piece of it into
-- the queue.
--
-- KEYS     1  slot       HASH  the queue's slot
-- ARGV     1  now_ms           the broker's clock
--          2  queue            its name
--          3  sink             whose batch it is
--          4  run              of the sink
--          5  number           of the batch in the run
--          6  family           code of the queue's family
--          7  is_worklist      1 = it is one
--          8  is_waited        1 = a client waits on it, so that it stays
--          9  settle_most      first settle up to this many of each kind
--         10  stamp_us         the first place if it is later than all others of the slot
--         11  step_us          of events, from one id to the next
--         12  until_ms         how long it is remembered that it was published; 0 = without end
--         13  is_refused       1 = no node takes messages now
--         14  content          stands for what is in it; empty = not compared
--         15.. part, attempt, chunks  of each part, the number of its chunks
-- RETURNS  how many messages this put there, how many are left to put, the newest place
-- ERRORS   WRONGTYPE           the queue belongs to another family, or the batch does
--          PAUSED              it takes nothing
--          NOREPL              no node takes messages now
--          OTHERBATCH          it was published or decided with other contents: nothing more; or one
--                              of a larger number was published: that number
--          NOSTAGE             of this part and attempt not all is staged
-- SAME AS  stores/embedded/stages.py:_publish

-- include lib/stage_batch.lua
-- include lib/stage_end.lua
-- include lib/stage_keep.lua
-- include lib/stage_move.lua
-- include lib/work_answer.lua
-- include lib/work_make.lua

local slot, now_ms, queue = slot_prefix(KEYS[1]), tonumber(ARGV[1]), ARGV[2]
local family, is_worklist, is_waited = ARGV[6], ARGV[7] == '1', ARGV[8] == '1'
local settle_most, stamp_us, step_us = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local until_ms, content = tonumber(ARGV[12]), ARGV[14]

local FORGET_MOST = 100  -- earlier batches that one call removes

-- Names of the pieces of these parts in order, and how many messages, chunks and bytes they are; or
-- the part that is not there as a whole.
local function find_pieces(batch)
  local names, messages, chunks, body_bytes = {}, 0, 0, 0
  for at = 15, #ARGV, 3 do
    local attempt = ARGV[at] .. ' ' .. ARGV[at + 1]
    for chunk = 0, tonumber(ARGV[at + 2]) - 1 do
      local kept = redis.call('HGET', batch.parts, string.format('%s %d', attempt, chunk))
      if not kept then
        return nil, attempt
      end
      local pieces, some, size_bytes = string.match(kept, '^(%d+) (%d+) (%d+)$')
      for piece = 1, tonumber(pieces) do
        names[#names + 1] = string.format('%s %d %d', attempt, chunk, piece)
      end
      messages, chunks = messages + tonumber(some), chunks + 1
      body_bytes = body_bytes + tonumber(size_bytes)
    end
  end
  return names, messages, chunks, body_bytes
end

-- One piece is in the queue; how many messages that put there.
local function move_piece(batch, target, name)
  local runs = cmsgpack.unpack(redis.call('HGET', batch.rows, name))
  local moved, count = stage_move(target, is_worklist, runs, stamp_us, step_us)
  redis.call('HDEL', batch.rows, name)
  batch.left = batch.left - count
  local chunk, piece = string.match(name, '^(.*) (%d+)$')
  local pieces, size_bytes = string.match(redis.call('HGET', batch.parts, chunk), '^(%d+) %d+ (%d+)$')
  if piece == pieces then
    batch.chunks, batch.body_bytes = batch.chunks - 1, batch.body_bytes - tonumber(size_bytes)
  end
  return moved
end

-- Remove staged batches with lower numbers of the run, some at a time: they will not be published.
-- Those that are decided will be.
local function forget_before(batch)
  for _, number in ipairs(redis.call('ZRANGEBYSCORE', batch.undecided, '-inf', '(' .. ARGV[5],
      'LIMIT', 0, FORGET_MOST)) do
    stage_forget(stage_batch(slot, queue, ARGV[3], ARGV[4], number, now_ms))
  end
end

local batch = stage_batch(slot, queue, ARGV[3], ARGV[4], ARGV[5], now_ms)
local is_over = batch.is_published and not batch.is_decided
local before = is_over and batch.mark.content or batch.content
if content ~= '' and is_over and batch.number < batch.mark.number then
  return work_answer(redis.error_reply(string.format('OTHERBATCH %d', batch.mark.number)))
elseif content ~= '' and before ~= '' and before ~= content then
  return work_answer(redis.error_reply('OTHERBATCH differs'))
elseif is_over then
  return work_answer({0, 0, 0})
end
if batch.is_there and (batch.family or family) ~= family then
  wrong_type('batch', batch.family, ARGV[3])
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
end
batch.family = family
local names, messages, chunks, body_bytes
if not batch.is_decided then
  names, messages, chunks, body_bytes = find_pieces(batch)
  if not names then
    return work_answer(redis.error_reply('NOSTAGE ' .. messages))
  end
end
local target = stage_target(slot, queue, family, is_worklist, now_ms, settle_most, is_waited)
if target == nil then
  return work_answer(redis.error_reply('WRONGTYPE ' .. WRONG_TYPE))
elseif ARGV[13] == '1' then
  return work_answer(redis.error_reply('NOREPL nobody takes it'))
elseif target and target.is_paused_in then
  return work_answer(redis.error_reply('PAUSED takes nothing'))
end

if names then
  many('RPUSH', batch.todo, names)
  batch.is_decided, batch.left, batch.content = true, messages, content
  batch.keep_ms = until_ms > 0 and until_ms - now_ms or 0
  batch.chunks, batch.body_bytes = chunks, body_bytes
  batch.began_ms = batch.is_there and batch.began_ms or now_ms
end
local moved = 0
local name = redis.call('LPOP', batch.todo)
if name then
  target = target or work_make(slot, queue, family, now_ms)
  moved = move_piece(batch, target, name)
end
if redis.call('EXISTS', batch.todo) == 0 then
  batch.left = 0
  forget_before(batch)
  stage_end(batch, until_ms, now_ms)
else
  stage_keep(batch, now_ms)
end
return work_answer({moved, batch.left, tonumber(redis.call('HGET', KEYS[1], 'last_place') or 0)})
