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

_MADE = re.compile(
    rb"<(?P<kind>id|job|node|cursor|number|packed|session)(?::(?P<name>\w+))?(?::(?P<end>\w{4}))?>"
)
_LOOKS = {
    b"id": rb"[0-9]{16}",
    b"job": rb"D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}",
    b"node": rb"[0-9a-f]{40}",
    b"cursor": rb"\$[1-9][0-9]?\r\n[0-9]{1,19}",
    b"number": rb"[0-9]{1,19}",
    b"session": rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    b"packed": rb"\$[0-9]{1,7}\r\n.*?",
}
# Not made for this one use: it may be the same as another.
_COMMON = (b"cursor_", b"number_", b"packed_")
_BYTES = re.compile(rb"<bytes:([0-9]+)>")


class Player:
    def __init__(
        self,
        transcript: Transcript,
        folder: Path,
        protocol: int,
        *,
        is_late: bool = False,
        redis_url: str = "",
    ) -> None:
        self._transcript = transcript
        self._folder = folder
        self._protocol = protocol
        self._is_late = is_late
        self._redis_url = redis_url
        self._made: dict[bytes, bytes] = {}  # by kind and name

    def play(self) -> None:
        """Everything happened as the transcript says, byte by byte.

        Raises AssertionError naming the line after which it did not.
        """
        settings = self._transcript.settings
        with Stage(
            self._folder,
            self._protocol,
            settings,
            is_late=self._is_late,
            redis_url=self._redis_url,
        ) as stage:
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
        filled = [_MADE.sub(self._again, word) for word in argv]
        return [_BYTES.sub(lambda found: b"x" * int(found[1]), word) for word in filled]

    def _again(self, found: re.Match[bytes]) -> bytes:
        made = self._made[_key(found)]
        return made.rpartition(b"\n")[2] if found["kind"] == b"cursor" else made

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
        """Whether the bytes match, taking note of what is new in them."""
        pattern, at = b"", 0
        new: list[bytes] = []
        for found in _MADE.finditer(wanted):
            key = _key(found)
            pattern += re.escape(wanted[at : found.start()])
            at = found.end()
            if key in self._made:
                pattern += re.escape(self._made[key])
            elif key in new:
                pattern += b"(?P=%b)" % key
            else:
                new.append(key)
                looks = _LOOKS[found["kind"]]
                if found["end"]:
                    looks = looks.removesuffix(b"[0-9a-f]{4}") + found["end"]
                pattern += b"(?P<%b>%b)" % (key, looks)
        match = re.fullmatch(pattern + re.escape(wanted[at:]), got, re.DOTALL)
        return match is not None and all(self._note(key, match[key.decode()]) for key in new)

    def _note(self, key: bytes, made: bytes) -> bool:
        """Remember what was made; False when it cannot be new."""
        ids = [each for name, each in self._made.items() if name.startswith(b"id_")]
        is_new = made not in self._made.values() or key.startswith(_COMMON)
        if key.startswith(b"packed_"):
            length, _, packed = made.partition(b"\r\n")
            is_new = int(length[1:]) == len(packed)
        if not is_new or (key.startswith(b"id_") and any(made <= id for id in ids)):
            return False
        self._made[key] = made
        return True


def _key(found: re.Match[bytes]) -> bytes:
    return b"%b_%b" % (found["kind"], found["name"] or b"")


def as_lines(client: str, reply: bytes) -> str:
    """A reply as a transcript would have it, to be compared by eye or pasted."""
    prefix = "" if client == "a" else client
    lines = [Line(0, text) for text in reply.removesuffix(b"\r\n").split(b"\r\n")] if reply else []
    return "\n".join(f"{prefix}< {escaped(line.text)}" for line in lines) or "nothing"
