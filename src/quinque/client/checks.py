"""Check names and numbers that a program passes, as a command would check them.

Called by   client/aio/: a store in the process does not check them again; worker/app.py.
Calls       nothing.

Not here: spans of time (spans.py), the same of commands (dialects/args.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from quinque.errors import BadArgument, BadId, BadSetting
from quinque.model.limits import NAME_MOST_BYTES
from quinque.model.states import State
from quinque.model.work_ids import is_id

# The largest number that every store keeps exactly: Lua numbers are doubles.
EXACT_MOST: Final = (1 << 53) - 1


def as_name(what: str, name: str | bytes, *, may_be_empty: bool = False) -> bytes:
    """Encode a name of a queue, a group or a key, or an id: any text that is not too long. Raises
    BadArgument."""
    if isinstance(name, str):
        text = _encoded(what, name)
    elif isinstance(name, bytes | bytearray | memoryview):
        text = bytes(name)
    else:
        raise BadArgument(f"{what} is bytes or str, and not {type(name).__name__}")
    if not text and not may_be_empty:
        raise BadArgument(f"{what} must not be empty")
    if len(text) > NAME_MOST_BYTES:
        raise BadArgument(f"{what} has {len(text)} bytes; at most {NAME_MOST_BYTES}")
    return text


def as_work_id(id: str) -> bytes:
    """Encode the id of a job. Raises BadId."""
    text = id.encode("utf-8", "surrogatepass")
    if not is_id(text):
        raise BadId(text)
    return text


def as_many(messages: Any) -> list[Any]:
    """Return the messages and ids as a list. One message or one id, which may be a str, is a list
    of one: a str is never a sequence of ids here. Raises BadArgument."""
    if isinstance(messages, str | bytes | int) or hasattr(messages, "id"):
        return [messages]
    try:
        return list(messages)
    except TypeError:
        raise BadArgument(
            f"a message, an id or several of them are expected, and not {type(messages).__name__}"
        ) from None


def only(ids: Sequence[bytes]) -> bytes:
    """Return the id for a method that takes one message. Raises BadArgument for none or several."""
    if len(ids) != 1:
        raise BadArgument(f"one message or one id is expected, and not {len(ids)}")
    return ids[0]


def id_of(message: Any) -> str:
    """Return the id of a message, or the id itself. Raises BadArgument."""
    id = message if isinstance(message, str) else getattr(message, "id", None)
    if not isinstance(id, str):
        raise BadArgument(
            f"a message or its id, a str, is expected, and not {type(message).__name__}"
        )
    return id


def as_bodies(bodies: Iterable[Any]) -> Iterable[Any]:
    """Return the bodies. Raises BadArgument for one str or bytes, whose characters would be bodies
    otherwise."""
    if isinstance(bodies, str | bytes | bytearray | memoryview):
        raise BadArgument(f"several bodies are expected, and not one {type(bodies).__name__}")
    if not isinstance(bodies, Iterable):
        raise BadArgument(f"several bodies are expected, and not {type(bodies).__name__}")
    return bodies


def as_element_id(id: str) -> bytes:
    """Encode the id of an element, which has no spaces. Raises BadArgument for several ids in one
    str."""
    name = as_name("id", id)
    if len(name.split()) != 1:
        raise BadArgument(f"{id!r} is not one id: pass several ids as a list")
    return name


def as_whole(what: str, number: int, least: int = 0, most: int = EXACT_MOST) -> int:
    """Return a whole number within bounds as a plain int: an IntEnum or a bool cannot be sent.

    Raises BadArgument.
    """
    if type(number) is not int:
        if not isinstance(number, int):
            raise BadArgument(f"{what} {number!r} is not a whole number")
        number = int(number)
    if not least <= number <= most:
        raise BadArgument(f"{what} {number} is not within {least} and {most}")
    return number


def as_whole_setting(what: str, number: int, least: int = -EXACT_MOST) -> int:
    """Return a whole number that is a setting of a client or a worker. Raises BadSetting."""
    if not isinstance(number, int):
        raise BadSetting(f"{what} {number!r} is not a whole number")
    if number < least:
        raise BadSetting(f"{what} {number} must be {least} or more")
    return int(number)


def as_state(state: object, valid: Iterable[State] = State) -> State:
    """Return the state if it is one of these. Raises BadArgument."""
    if not isinstance(state, State) or state not in tuple(valid):
        names = " or ".join(f"State.{each.name}" for each in valid)
        raise BadArgument(f"state is {state!r}; pass {names}")
    return state


def as_reason(text: str) -> bytes:
    """Cut the reason of a nack to the size that is stored with the message."""
    return text.encode("utf-8", "backslashreplace")[:NAME_MOST_BYTES]


def reason_of(error: BaseException) -> str:
    """Return the type and the text of an error, as the reason of a nack."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the program wrote the class, and its __str__ may raise any error
        return type(error).__name__


def _encoded(what: str, text: str) -> bytes:
    """Encode text. Surrogates become the bytes that were not UTF-8 when they came from a broker."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadArgument(f"{what} cannot be encoded: {error.reason}") from error
