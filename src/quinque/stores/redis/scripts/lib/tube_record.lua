-- tube_record(tube, kind, reason, ids, sizes): that this became of tasks of the tube goes on record.
-- SAME AS stores/embedded/tube_changes.py:TELLERS
--
-- include lib/record.lua
local function tube_record(tube, kind, reason, ids, sizes)
  if is_recording and #ids > 0 then
    local shown = {}
    for at, id in ipairs(ids) do
      shown[at] = string.match(id, '^0*(%d+)$')
    end
    record(tube.slot, tube.now_ms, kind, reason, tube.family, tube.name, '', 0, shown, nil, sizes)
  end
end
