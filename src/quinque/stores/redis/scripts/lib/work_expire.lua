-- work_expire(list, messages): these messages of the worklist have expired: they are gone, or dead if
-- it keeps them.
-- SAME AS engine/work/due.py:settle
--
-- work_is_kept(message): whether the message is dead when it expires, and not gone. One that is delivered
-- at most once need not be acked, so it goes when it was delivered.
-- SAME AS engine/work/worklist.py:keeps
--
-- include lib/answer.lua
-- include lib/work_die.lua
-- include lib/work_remove.lua
local function work_is_given_away(message)
  return message.state == 'leased' and message.terms.retry_ms == 0
end

local function work_is_kept(message)
  return message.list.keeps_expired and not work_is_given_away(message)
end

local function work_expire(list, messages)
  local gone, name = {}, list.name
  for _, message in ipairs(messages) do
    if work_is_kept(message) then
      work_die(message, 'expired', TTL_OVER)
    else
      gone[#gone + 1] = message
      if not work_is_given_away(message) then
        expired_counts[name] = (expired_counts[name] or 0) + 1
      end
    end
  end
  work_remove(list, gone, EXPIRED, NONE)
end
