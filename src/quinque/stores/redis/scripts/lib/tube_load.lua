-- tube_load(tube, ids, read): the tasks of these ids, as tube_read or `read` has them; false for each
-- that is not there. A task is stored as its text, with a space after each number; the length is that
-- of the lane:
--
--   created_ms ttl_ms ttr_ms pri length lane body
--   created_ms ttl_ms ttr_ms pri length+lane       a long body is in `bodies`: what looks at tasks
--                                                  need not read it
--
-- tube_read(id, text): the task of that text. tube_read_plain(id, text): only the part that a tube
-- without times and lanes needs. tube_body(tube, task): its body, from the text or from `bodies`.
-- tube_begin(task, is_long): its text, without the body. tube_keep(tube, task): store the task, whose
-- body may have changed. tube_end_ms(task): when its life ends; nothing if it does not.
--
-- include lib/many.lua

local FOREVER_MS = 3153600000000  -- as model/tube_ops.py has it
local TASK_BODY_MOST_BYTES = 1024

local function tube_read_plain(id, text)
  local length, mark, from = string.match(text, '^%d+ %d+ %d+ %d+ (%d+)([ +])()')
  local is_long = mark == '+'
  return {id = id, body = not is_long and string.sub(text, from + length) or nil, is_long = is_long}
end

local function tube_read(id, text)
  local created_ms, ttl_ms, ttr_ms, pri, length, mark, from =
      string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)([ +])()')
  local to = from + tonumber(length)
  local is_long = mark == '+'
  return {
    id = id,
    created_ms = tonumber(created_ms),
    ttl_ms = tonumber(ttl_ms),
    ttr_ms = tonumber(ttr_ms),
    pri = pri,
    lane = string.sub(text, from, to - 1),
    body = not is_long and string.sub(text, to) or nil,
    is_long = is_long,
  }
end

local function tube_body(tube, task)
  task.body = task.body or redis.call('HGET', tube.bodies, task.id)
  return task.body
end

local function tube_begin(task, is_long)
  return string.format('%d %d %d %s %d', task.created_ms, task.ttl_ms, task.ttr_ms, task.pri,
      #task.lane) .. (is_long and '+' or ' ') .. task.lane
end

local function tube_keep(tube, task)
  local body = task.body
  local is_long = not body or #body > TASK_BODY_MOST_BYTES
  if is_long and body then
    redis.call('HSET', tube.bodies, task.id, body)
  elseif task.is_long and not is_long then
    redis.call('HDEL', tube.bodies, task.id)
  end
  task.is_long = is_long
  redis.call('HSET', tube.tasks, task.id, tube_begin(task, is_long) .. (is_long and '' or body))
end

local function tube_end_ms(task)
  return task.ttl_ms < FOREVER_MS and task.created_ms + task.ttl_ms or nil
end

local function tube_load(tube, ids, read)
  read = read or tube_read
  local tasks = {}
  for at, text in ipairs(many('HMGET', tube.tasks, ids)) do
    tasks[at] = text and read(ids[at], text)
  end
  return tasks
end
