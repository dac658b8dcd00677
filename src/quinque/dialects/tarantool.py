"""Functions of Tarantool's queue module, as clients call them over IPROTO.

Called by   server/tarantool_calls.py.
Calls       tarantool_tasks.py, tarantool_tubes.py.

    queue.tube.NAME:put        a function of one tube; NAME may be any bytes, up to the last colon
    queue.statistics           a function of the module

The module may have another name, for example box.queue, because clients have a setting for it. Each
function belongs to a command of RESP: it needs the permission for that command and is counted with
it.

A function returns packed values. CALL replies with them, and CALL_16 with a tuple for each.

Not here: functions that EVAL names (lua_calls.py), operations (engine/tubes/), numbers of errors
(tarantool_errors.py).
"""

from __future__ import annotations

from typing import Any, Final

from quinque.dialects.tarantool_tasks import TASK_VERBS
from quinque.dialects.tarantool_tubes import BOX_VERBS, MODULE_VERBS, TUBE_VERBS
from quinque.dialects.tarantool_verbs import Call, Caller, Request, array_head, is_array
from quinque.errors import NotDefined
from quinque.model.limits import NAME_MOST_BYTES

_VERBS: Final = {**TASK_VERBS, **TUBE_VERBS}
_DATA_OF: Final = b"\x81\x30"  # the map of a body, up to its values
_DATA_OF_ONE: Final = b"\x81\x30\x91"


def find_call(function: bytes) -> Call:
    """Return the function of that name. Raises NotDefined."""
    before, found, rest = function.partition(b".tube.")
    if found and before:
        tube, _, word = rest.rpartition(b":")
        verb = _VERBS.get(word)
        if verb is not None and 1 <= len(tube) <= NAME_MOST_BYTES:
            return Call(verb, tube, function)
    else:
        before, _, word = function.rpartition(b".")
        verb = BOX_VERBS.get(function) or MODULE_VERBS.get(word)
        if verb is not None and before:
            return Call(verb, b"", function)
    raise NotDefined(function)


def values_of(call: Call, request: Request, result: Any, caller: Caller) -> list[bytes]:
    """Return the values of the function. Raises NotTaken, NoTask."""
    verb = call.verb
    if verb.reply_each is not None:
        return verb.reply_each(request, result[0] if result else None)
    assert verb.reply is not None, "a function has one of the two"
    return verb.reply(request, result, caller)


def body_of(values: list[bytes], *, as_tuples: bool) -> bytes:
    """Return the body of a reply. `as_tuples` is for CALL_16."""
    if as_tuples:
        values = [value if is_array(value) else b"\x91" + value for value in values]
    if len(values) == 1:
        return _DATA_OF_ONE + values[0]
    return _DATA_OF + array_head(len(values)) + b"".join(values)
