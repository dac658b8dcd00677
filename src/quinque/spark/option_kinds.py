"""The kinds of value an option of the connector can have, each read from text.

Called by   options.py, whose table gives every option a kind.
Calls       nothing.

Spark hands all options over as text: `option("failOnDataLoss", False)` arrives as "false".

Not here: which options exist (options.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from quinque.model.states import State

_SPAN_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_UNITS: Final = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_SPAN: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d|)", re.ASCII)
_SIZE: Final = re.compile(r"([0-9]{1,15})(b|kb|mb|gb|)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class Kind(NamedTuple):
    """`shape` ends the sentence "x is not …"; `read` raises ValueError when x is not."""

    shape: str
    read: Callable[[str], Any]


def number(least: int, most: int) -> Kind:
    def read(text: str) -> int:
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return Kind(f"a number from {least} to {most}", read)


def choice(*words: str) -> Kind:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError
        return text.lower()

    return Kind(" or ".join(words), read)


def span(least_ms: int, most_ms: int) -> Kind:
    """Make a type for durations in milliseconds. A number with a unit may have another one."""

    def read(text: str) -> int:
        found = _SPAN.fullmatch(text.lower())
        if not found or not least_ms <= int(found[1]) * _SPAN_UNITS_MS[found[2]] <= most_ms:
            raise ValueError
        return int(found[1]) * _SPAN_UNITS_MS[found[2]]

    return Kind(f"a duration from {_shown_ms(least_ms)} to {_shown_ms(most_ms)}", read)


def size(least: int, most: int) -> Kind:
    def read(text: str) -> int:
        found = _SIZE.fullmatch(text.lower())
        if not found or not least <= int(found[1]) * _SIZE_UNITS[found[2]] <= most:
            raise ValueError
        return int(found[1]) * _SIZE_UNITS[found[2]]

    return Kind("a size such as 64mb", read)


def text_of_most(characters: int) -> Kind:
    def read(text: str) -> str:
        if not 0 < len(text) <= characters:
            raise ValueError
        return text

    return Kind(f"1 to {characters} characters", read)


def _yes_or_no(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def one_name(name: str) -> str:
    """Return the text that NAMES reads as this one name: a comma and spaces belong to it."""
    try:
        is_plain = _names(name) == (name,) and bool(name.encode())
    except ValueError:
        is_plain = False
    return name if is_plain else json.dumps([name])


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if text.startswith('["'):
        names = tuple(json.loads(text))
    if not all(isinstance(name, str) for name in names):
        raise ValueError
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names


def _states(text: str) -> tuple[State, ...]:
    return tuple(State[word.strip().upper()] for word in text.split(","))


def _position(text: str) -> str | dict[int, int]:
    """`earliest`, `latest`, or for each shard the number of a row: {"0": 17}."""
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    rows = json.loads(text)
    if not isinstance(rows, dict) or not all(type(row) is int for row in rows.values()):
        raise ValueError
    if min(rows.values(), default=0) < 0:
        raise ValueError
    return {int(shard): int(row) for shard, row in rows.items()}


def _shown_ms(span_ms: int) -> str:
    for unit, factor in reversed(_SPAN_UNITS_MS.items()):
        if span_ms and span_ms % factor == 0:
            return f"{span_ms // factor}{unit or 'ms'}"
    return "0"


BOOLEAN: Final = Kind("true or false", _yes_or_no)
NAMES: Final = Kind(
    "one name, several different names separated by commas, or a JSON list of them", _names
)
STATES: Final = Kind("some of ready,delayed,leased,dead", _states)
POSITION: Final = Kind('earliest, latest or rows by shard such as {"0": 17}', _position)
