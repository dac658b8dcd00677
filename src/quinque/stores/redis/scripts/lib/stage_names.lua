-- stage_names(timer): queue, sink, run and number of a batch, of which `timers` has
-- "stage:length:queue:length:sink:number:run", each length being that of the name after it; nothing
-- if it is another timer. stage_run_names(text): queue, sink and run, of "length:queue:length:sink:run"
-- as `published` has it.
local function stage_name_and_rest(text)
  local length, from = string.match(text, '^(%d+):()')
  local to = from + tonumber(length) - 1
  return string.sub(text, from, to), string.sub(text, to + 2)
end

local function stage_run_names(text)
  local queue, sink
  queue, text = stage_name_and_rest(text)
  sink, text = stage_name_and_rest(text)
  return queue, sink, text
end

local function stage_names(timer)
  local text = string.match(timer, '^stage:(.*)$')
  if not text then
    return nil
  end
  local queue, sink, rest = stage_run_names(text)
  local number, run = string.match(rest, '^(%d+):(.*)$')
  return queue, sink, run, number
end
