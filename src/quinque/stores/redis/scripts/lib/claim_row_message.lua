-- claim_row_message(list, row, deliveries): the message of the worklist that the row holds, ready,
-- with that number of deliveries.
local function claim_row_message(list, row, deliveries)
  local terms = row[12]
  return {
    id = row[1],
    list = list,
    body = row[2],
    place = string.format('%d', row[4]),
    expires_ms = row[5],
    nacks = row[8],
    requeues = row[9],
    reason = row[10],
    terms = {
      ttl_ms = terms[1],
      delay_ms = terms[2],
      retry_ms = terms[3],
      max_deliveries = terms[4],
      replicas = terms[5],
      key = row[11],
    },
    deliveries = deliveries,
    is_new = false,
    has_progress = false,
    state = 'ready',
    due_ms = 0,
  }
end
