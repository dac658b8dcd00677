-- work_body(slot, message): its body, be it where it may.
local function work_body(slot, message)
  return message.body or redis.call('HGET', slot .. 'bodies', message.id)
end
