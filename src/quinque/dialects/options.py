"""Readers of arguments that Quinque's commands share: options, whole numbers, families, states.

Called by   claims.py, stages.py, messages.py, lifecycle.py, while they parse.
Calls       args.py.

    CLAIM.FILL queue subscription 3 17 COUNT 5000 SEAL
               fixed arguments         options, in any order

Not here: readers that other dialects use too (args.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quinque.dialects.args import read_int, read_name, refuse_option
from quinque.errors import BadArgument, printable
from quinque.model.families import BY_NAME, EVENTS, TUBES, Family
from quinque.model.limits import NAME_MOST_BYTES, SPAN_MOST_MS
from quinque.model.states import State

# Numbers in Lua and JavaScript are doubles, which are exact up to here.
EXACT_MOST: Final = (1 << 53) - 1
SLOTS_MOST: Final = 16_383  # a shard is the number of a slot, or smaller

# Tasks of tubes belong to sessions, so claims, stages and pages do not support them.
_FAMILIES: Final = {name: family for name, family in BY_NAME.items() if family is not TUBES}

PEEK_COUNT: Final = 10  # default for the number of messages that are shown

STATES: Final = {state.name.lower().encode(): state for state in State}


class Options:
    """Iterates over the arguments after the fixed ones, one option after the other. The caller
    reads the value of each."""

    def __init__(self, command: str, argv: list[bytes], at: int) -> None:
        self._command = command
        self._argv = argv
        self._at = at

    def __iter__(self) -> Iterator[bytes]:
        """Yield each option in upper case. The caller reads its value before the next option."""
        while self._at < len(self._argv):
            self._at += 1
            yield self._argv[self._at - 1].upper()

    def value(self) -> bytes:
        """Return the argument after the option."""
        if self._at == len(self._argv):
            option = printable(self._argv[-1][:64])
            raise BadArgument(f"{self._command} has no value after '{option}'")
        self._at += 1
        return self._argv[self._at - 1]

    def number(self, least: int = 0, most: int = EXACT_MOST) -> int:
        """Return the argument after the option as a whole number."""
        what = self._argv[self._at - 1].upper().decode("ascii", "replace")
        return read_int(what, self.value(), least=least, most=most)

    def state(self, words: Mapping[bytes, State]) -> State:
        """Return the argument after the option as a state, by the name that the command has for
        it."""
        word = self.value()
        state = words.get(word.lower())
        if state is None:
            listed = ", ".join(each.decode() for each in words)
            raise BadArgument(f"state '{printable(word[:64])}' is not one of {listed}")
        return state

    def span_ms(self, least: int = 0) -> int:
        """Return the argument after the option as milliseconds."""
        return self.number(least, SPAN_MOST_MS)

    def shard(self) -> int:
        """Return the argument after SHARD."""
        return self.number(0, SLOTS_MOST)

    def rest(self) -> list[bytes]:
        """Return all arguments after the option."""
        words = self._argv[self._at :]
        self._at = len(self._argv)
        return words

    def refused(self) -> BadArgument:
        """Make the error for an option that the command does not have."""
        return refuse_option(self._command, self._argv[self._at - 1])


def read_number(what: str, text: bytes, least: int = 0) -> int:
    """Return a whole number that every store keeps exactly."""
    return read_int(what, text, least=least, most=EXACT_MOST)


def read_family(text: bytes) -> Family:
    """Return a family by its name, if its messages can be claimed, staged and listed."""
    family = _FAMILIES.get(text.lower().decode("latin-1"))
    if family is None:
        listed = ", ".join(_FAMILIES)
        raise BadArgument(f"family '{printable(text[:64])}' is not one of {listed}")
    return family


def read_queue_of(family: Family, text: bytes) -> bytes:
    """Return the name of a queue of that family."""
    return read_name("queue", text) if family is EVENTS else read_any_queue(text)


def read_any_queue(text: bytes) -> bytes:
    """Return the name of a queue, which may be empty in all families but events."""
    return read_name("queue", text) if len(text) > NAME_MOST_BYTES else text


def read_states(text: bytes) -> Sequence[State]:
    """Return states by their names, which are separated by commas."""
    states = []
    for word in text.lower().split(b","):
        if word not in STATES:
            listed = ", ".join(state.decode() for state in STATES)
            raise BadArgument(f"state '{printable(word[:64])}' is not one of {listed}")
        states.append(STATES[word])
    return list(dict.fromkeys(states))
