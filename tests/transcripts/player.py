"""Play a transcript against a broker, and say where what happens is not what it says.

Called by   test_transcripts.py.
Calls       notation.py (reads), stage.py (the broker).

Not here: the broker's clock and its clients (stage.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.transcripts.notation import Line, Step, Transcript, escaped
from tests.transcripts.stage import Stage

_ID = re.compile(rb"<id:(\w+)>")
_MADE = rb"[0-9]{16}"
_BYTES = re.compile(rb"<bytes:([0-9]+)>")


class Player:
    def __init__(self, transcript: Transcript, folder: Path, protocol: int) -> None:
        self._transcript = transcript
        self._folder = folder
        self._protocol = protocol
        self._ids: dict[bytes, bytes] = {}

    def play(self) -> None:
        """Everything happened as the transcript says, byte by byte.

        Raises AssertionError naming the line after which it did not.
        """
        with Stage(self._folder, self._protocol, self._transcript.settings) as stage:
            for step in self._transcript.steps:
                self._carry_out(stage, step)
                self._compare(step, stage.replies())

    def _carry_out(self, stage: Stage, step: Step) -> None:
        if step.kind == "send":
            for client, requests in step.sends:
                stage.send(client, map(self._words, requests))
            stage.settle()
        elif step.kind == "pass":
            stage.pass_time(step.span_ms)
        elif step.kind == "leave":
            stage.leave(step.client)
        else:
            stage.kill()

    def _words(self, argv: list[bytes]) -> list[bytes]:
        """The words of a request, with what stands for something else replaced by it."""
        ids_filled = [_ID.sub(lambda found: self._ids[found[1]], word) for word in argv]
        return [_BYTES.sub(lambda found: b"x" * int(found[1]), word) for word in ids_filled]

    def _compare(self, step: Step, got: dict[str, bytes]) -> None:
        for client in sorted({*got, *step.replies}):
            lines = step.replies.get(client, [])
            wanted = b"".join(
                line.text + b"\r\n" for line in lines if line.protocol in (0, self._protocol)
            )
            reply = got.get(client, b"")
            assert self._is_as_told(wanted, reply), (
                f"after line {step.line_number}, in RESP{self._protocol}, {client} got:\n"
                + as_lines(client, reply)
            )

    def _is_as_told(self, wanted: bytes, got: bytes) -> bool:
        """Whether the bytes match, taking note of the ids that are new in them."""
        pattern, new = b"", []
        for at, part in enumerate(_ID.split(wanted)):
            if at % 2 == 0:
                pattern += re.escape(part)
            elif part in self._ids:
                pattern += re.escape(self._ids[part])
            elif part in new:
                pattern += b"(?P=id_%b)" % part
            else:
                new.append(part)
                pattern += b"(?P<id_%b>%b)" % (part, _MADE)
        found = re.fullmatch(pattern, got, re.DOTALL)
        if found is None:
            return False
        for name in new:
            id = found["id_" + name.decode()]
            if any(id <= earlier for earlier in self._ids.values()):
                return False
            self._ids[name] = id
        return True


def as_lines(client: str, reply: bytes) -> str:
    """A reply as a transcript would have it, to be compared by eye or pasted."""
    prefix = "" if client == "a" else client
    lines = [Line(0, text) for text in reply.removesuffix(b"\r\n").split(b"\r\n")] if reply else []
    return "\n".join(f"{prefix}< {escaped(line.text)}" for line in lines) or "nothing"
