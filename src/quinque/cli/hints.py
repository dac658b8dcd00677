"""Completions and usage for the prompt, from COMMAND DOCS of the broker.

Called by   cli/prompt.py.
Calls       nothing.

Not here: the texts of COMMAND DOCS (server/commands/catalog.py), the keyboard (cli/prompt.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hint:
    """A command: its usage, its description and its options."""

    name: str
    usage: str
    summary: str
    group: str
    words: tuple[str, ...]
    takes_queue: bool


class Hints:
    def __init__(
        self, docs: Sequence[Any] | Mapping[Any, Any], queues: Callable[[], Iterable[str]]
    ) -> None:
        """`docs` is the reply to COMMAND DOCS; `queues` returns the names of queues."""
        self._queues = queues
        self.by_name = {hint.name: hint for hint in _hints(docs)}

    def find(self, words: Sequence[str]) -> Hint | None:
        """Return the command with which these words begin, if there is one."""
        pair = " ".join(words[:2]).upper()
        return self.by_name.get(pair) or self.by_name.get(words[0].upper() if words else "")

    def completions(self, before: Sequence[str], begun: str) -> list[str]:
        """Return the possible completions of the last word, after the words before it."""
        capital = begun.upper()
        firsts = " ".join(before).upper()
        lead = f"{firsts} " if firsts else ""
        names = {
            name.removeprefix(lead).split()[0]
            for name in self.by_name
            if name.startswith(lead + capital) and name != firsts
        }
        if not before:
            return sorted(names)
        hint = self.find(before)
        words = {word for word in hint.words if word.startswith(capital)} if hint else set()
        queues: set[str] = set()
        if hint is not None and hint.takes_queue:
            queues = {name for name in self._queues() if name.startswith(begun)}
        return sorted(names | words) + sorted(queues)

    def groups(self) -> dict[str, list[str]]:
        """Return all commands by group."""
        groups: dict[str, list[str]] = {}
        for name in sorted(self.by_name):
            groups.setdefault(self.by_name[name].group, []).append(name)
        return groups


def _hints(docs: Sequence[Any] | Mapping[Any, Any]) -> Iterator[Hint]:
    for name, told in pairs(docs):
        facts = dict(pairs(told))
        if "subcommands" in facts:
            yield from _hints(facts["subcommands"])
            continue
        arguments = facts.get("arguments", [])
        shown = name.upper().replace("|", " ")
        yield Hint(
            shown,
            " ".join([shown, *(_usage(each) for each in arguments)]),
            facts["summary"].decode(),
            facts["group"].decode(),
            tuple(dict.fromkeys(word for each in arguments for word in _words(each))),
            any(_is_queue(each) for each in arguments),
        )


def _usage(argument: Sequence[Any]) -> str:
    facts = dict(pairs(argument))
    flags = [_text(flag) for flag in facts.get("flags", [])]
    parts = [_usage(each) for each in facts.get("arguments", [])]
    token = facts["token"].decode() if "token" in facts else ""
    match facts["type"]:
        case b"oneof":
            text = "|".join(parts)
        case b"block":
            text = " ".join(parts)
        case b"pure-token":
            text = ""
        case _:
            text = facts["name"].decode()
    if "multiple_token" in flags:
        return f"[{token} {text}] ..." if "optional" in flags else f"{token} {text} ..."
    if "multiple" in flags:
        is_short = "optional" in flags or token
        text = f"{text} ..." if is_short else f"{text} [{text} ...]"
    text = " ".join(filter(None, (token, text)))
    return f"[{text}]" if "optional" in flags else text


def _words(argument: Sequence[Any]) -> Iterator[str]:
    facts = dict(pairs(argument))
    if "token" in facts:
        yield facts["token"].decode()
    for each in facts.get("arguments", []):
        yield from _words(each)


def _is_queue(argument: Sequence[Any]) -> bool:
    facts = dict(pairs(argument))
    return facts["type"] == b"key" or any(_is_queue(each) for each in facts.get("arguments", []))


def pairs(reply: Sequence[Any] | Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a map, which RESP2 has as a list."""
    if isinstance(reply, Mapping):
        return ((_text(name), value) for name, value in reply.items())
    names = (_text(name) for name in reply[::2])
    return zip(names, reply[1::2], strict=True)


def _text(value: Any) -> str:
    """Return the text of a simple or a bulk string."""
    text: bytes = getattr(value, "text", value)
    return text.decode()
