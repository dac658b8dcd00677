"""Format replies as redis-cli does, or as JSON.

Called by   cli/prompt.py.
Calls       nothing.

    (integer) 1        1) "a"          OK          (nil)          (error) ERR …
                       2) (integer) 2              (empty array)

A text for people, such as the reply of INFO, is shown in its own lines and without quotes.

Not here: how replies are read (cli/line.py).
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

from quinque.cli.line import Refusal, Status, Verbatim
from quinque.cli.shown import text_of

_ESCAPES: Final = {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    7: "\\a",
    8: "\\b",
}


def shown_reply(reply: Any, indent: str = "") -> str:
    """Return the reply as lines. The first line has no indent."""
    match reply:
        case Status(text):
            return text_of(text)
        case Refusal(text):
            return f"(error) {text_of(text)}"
        case bool():
            return "(true)" if reply else "(false)"
        case int():
            return f"(integer) {reply}"
        case None:
            return "(nil)"
        case Verbatim():
            return "\n".join(map(text_of, reply.splitlines()))
        case bytes():
            return quoted(reply)
        case dict():
            return _shown_pairs(reply, indent)
    return _shown_items(reply, indent)


def quoted(text: bytes) -> str:
    """Return the bytes in quotes. Bytes that cannot be printed are written as \\xNN."""
    shown = "".join(
        _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
        for byte in text
    )
    return f'"{shown}"'


def reply_as_json(reply: Any) -> str:
    """Return the reply as one line of JSON."""
    return json.dumps(_plain(reply))


def _shown_items(items: list[Any], indent: str) -> str:
    if not items:
        return "(empty array)"
    width = len(str(len(items)))
    inner = indent + " " * (width + 2)
    lines = [
        f"{indent if number > 1 else ''}{number:>{width}}) {shown_reply(item, inner)}"
        for number, item in enumerate(items, 1)
    ]
    return "\n".join(lines)


def _shown_pairs(pairs: dict[Any, Any], indent: str) -> str:
    if not pairs:
        return "(empty hash)"
    width = len(str(len(pairs)))
    inner = indent + " " * (width + 2)
    lines = [
        f"{indent if number > 1 else ''}{number:>{width}}# {shown_reply(name, inner)}"
        f" => {shown_reply(value, inner)}"
        for number, (name, value) in enumerate(pairs.items(), 1)
    ]
    return "\n".join(lines)


def _plain(reply: Any) -> Any:
    match reply:
        case Status(text):
            return _text(text)
        case Refusal(text):
            return {"error": text}
        case bytes():
            return _text(reply)
        case list():
            return [_plain(item) for item in reply]
        case dict():
            return {str(_plain(name)): _plain(value) for name, value in reply.items()}
    return reply


def _text(text: bytes) -> Any:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(text).decode()}
