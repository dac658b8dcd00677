"""Transcripts as text: what a line means.

Called by   player.py, tests/facts.
Calls       wire/inline.py, whose quoting the request lines share.

    # words                       for the reader
    > QADD foo 60 "hello\\x00"    a request; lines that follow one another are sent in one go
    < $6                          a line of the reply, exactly, without its CR LF
    2< $-1                        … when the client speaks RESP2
    3< _                          … when it speaks RESP3
    b> QGET foo billing           the client b; a line without a letter is of the client a
    b< *2
    c&> QGET foo billing          … in the same moment as the request above
    * 1500 ms pass                time passes, and nothing else does; also: 30 s pass
    * b leaves                    the connection is lost
    * the broker is killed and started again
    * bg-qadd-pool-size is 1      a setting; before the first request

In a reply, these stand for what the broker made, and from then on for that same thing everywhere:

    <id:1>          an id of the events family: 16 digits, larger than those before
    <job:1>         an id of the jobs family
    <job:1:05a1>    … that ends so
    <node>          what the broker is called among nodes
    <cursor:1>      where a scan goes on: a whole bulk string in a reply, a number in a request
    <number:1>      a number that the clock or the store chose: a place, an instant, a shard
    <session:1>     a session of the tubes family, as a UUID
    <packed:1>      messages or entries, packed: a whole bulk string in a reply

In a request, `<bytes:1025>` is so many bytes. In a reply, \\r \\n \\\\ and \\xNN are bytes.
Whatever a client gets must stand there: no line, no reply.

Not here: playing them (player.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from quinque.wire.inline import split_inline

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "transcripts"

_REQUEST = re.compile(r"(?P<client>[a-z]?)(?P<joined>&?)> (?P<words>.+)")
_REPLY = re.compile(r"(?P<client>[a-z]?)(?P<protocol>[23]?)< ?(?P<line>.*)")
_TIME = re.compile(r"\* (?P<number>[0-9]+) (?P<unit>ms|s) pass(?:es)?")
_LEAVES = re.compile(r"\* (?P<client>[a-z]) leaves")
_KILL = "* the broker is killed and started again"
_SETTING = re.compile(r"\* (?P<name>[a-z-]+) is (?P<value>.+)")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
_MEANING = {"r": b"\r", "n": b"\n", "\\": b"\\"}

Kind = Literal["send", "pass", "leave", "kill"]


@dataclass(slots=True)
class Line:
    """A line of a reply, and in which protocols it is sent (0 = both)."""

    protocol: int
    text: bytes


@dataclass(slots=True)
class Step:
    """Something that happens, and what each client then gets."""

    line_number: int
    kind: Kind
    client: str = ""
    sends: list[tuple[str, list[list[bytes]]]] = field(default_factory=list)
    span_ms: int = 0
    replies: dict[str, list[Line]] = field(default_factory=dict)


@dataclass(slots=True)
class Transcript:
    settings: dict[str, str]
    steps: list[Step]


def transcript_paths() -> list[Path]:
    """Every transcript of the documentation."""
    return sorted(FOLDER.rglob("*.txt"))


def parse(text: str) -> Transcript:
    """The transcript. Raises ValueError naming the line that means nothing."""
    done = Transcript({}, [])
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#") or not line.strip():
            continue
        try:
            _read_line(done, number, line)
        except ValueError as exc:
            raise ValueError(f"line {number}: {exc}: {line}") from None
    return done


def requests_of(transcript: Transcript) -> Iterator[list[bytes]]:
    """Every request, as its words."""
    for step in transcript.steps:
        for _, requests in step.sends:
            yield from requests


def lines_of(transcript: Transcript) -> Iterator[bytes]:
    """Every line of every reply."""
    for step in transcript.steps:
        for lines in step.replies.values():
            for line in lines:
                yield line.text


def _read_line(done: Transcript, number: int, line: str) -> None:
    steps = done.steps
    if found := _REQUEST.fullmatch(line):
        client = found["client"] or "a"
        words = split_inline(found["words"].encode())
        if not words:
            raise ValueError("no words, or quotes that do not balance")
        last = steps[-1] if steps and not steps[-1].replies else None
        if last is not None and last.sends and last.sends[-1][0] == client:
            last.sends[-1][1].append(words)
        elif last is not None and last.sends and found["joined"]:
            last.sends.append((client, [words]))
        elif found["joined"]:
            raise ValueError("there is no request to join")
        else:
            steps.append(Step(number, "send", sends=[(client, [words])]))
    elif found := _REPLY.fullmatch(line):
        if not steps:
            raise ValueError("a reply to nothing")
        lines = steps[-1].replies.setdefault(found["client"] or "a", [])
        lines.append(Line(int(found["protocol"] or 0), unescaped(found["line"])))
    elif found := _TIME.fullmatch(line):
        span_ms = int(found["number"]) * (1000 if found["unit"] == "s" else 1)
        steps.append(Step(number, "pass", span_ms=span_ms))
    elif found := _LEAVES.fullmatch(line):
        steps.append(Step(number, "leave", found["client"]))
    elif line == _KILL:
        steps.append(Step(number, "kill"))
    elif (found := _SETTING.fullmatch(line)) and not steps:
        done.settings[found["name"]] = found["value"]
    else:
        raise ValueError("not a line of a transcript")


def unescaped(text: str) -> bytes:
    """The bytes that a line of a reply stands for."""
    out: list[bytes] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        out.append(text[at : found.start()].encode())
        if found[1] is not None:
            out.append(bytes.fromhex(found[1]))
        elif found[2] in _MEANING:
            out.append(_MEANING[found[2]])
        else:
            raise ValueError(f"{found[0]} is no escape")
        at = found.end()
    return b"".join([*out, text[at:].encode()])


def escaped(data: bytes) -> str:
    """The bytes as a line of a reply has them."""
    text = data.decode("utf-8", "backslashreplace") if b"\\" not in data else None
    if text is None:
        text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if letter in "\r\n":
        return "\\r" if letter == "\r" else "\\n"
    return letter if letter >= " " and letter != "\x7f" else f"\\x{ord(letter):02x}"
