"""What clients saw, and whether a broker may have shown it: the checks.

Each message has a body of its own, by which it is known. The simulator knows when the broker sent a
reply, more or less (`Moment`). A check says only what holds for every time in between, so a failure
is one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, TextIO

from tests.sim.client import Connection, Moment

_SHOWN: Final = 400  # lines of a report


class Broken(Exception):
    """A promise does not hold."""


@dataclass
class Hold:
    """A delivery: for `lease_s` no other consumer may get the message."""

    by: str
    moment: Moment
    lease_s: float
    connection: Connection
    is_given_back: bool = False

    @property
    def is_void(self) -> bool:
        """Whether another consumer may get the message before the lease ends."""
        return self.is_given_back or self.connection.holds_nothing


@dataclass
class Message:
    """`added` is what its producer knows: asked (no reply), stored, refused."""

    body: bytes
    family: str
    queue: str
    added: str = "asked"
    id: bytes = b""
    once: bool = False  # it is delivered at most once
    lease_s: float = 0.0
    is_uncertain: bool = False  # a request without a reply may have removed it
    removed: Moment | None = None  # when the reply said so
    holds: list[Hold] = field(default_factory=list)
    deliveries: int = 0
    releases: int = 0  # requests under way that give it back, whoever has it

    @property
    def must_be_there(self) -> bool:
        """Whether a broker that lost nothing has it."""
        is_gone = self.once and self.deliveries > 0
        return (
            self.added == "stored"
            and self.removed is None
            and not self.is_uncertain
            and not is_gone
        )


class History:
    def __init__(self) -> None:
        self.messages: dict[tuple[str, bytes], Message] = {}
        self.lines: deque[str] = deque(maxlen=_SHOWN)
        self.fingerprint = 0
        self.counts: dict[str, int] = {}
        self.trace: TextIO | None = None  # where every line goes
        self.recovered: dict[str, float] = {}  # when elements of a queue may last have been
        self._last = 0

    # -- the report ----------------------------------------------------------------------------

    def note(self, at_s: float, by: str, what: str) -> None:
        """A line of the report, and a part of what two runs of a seed must share."""
        line = f"{at_s:.6f} {by}: {what}"
        self.lines.append(line)
        if self.trace is not None:
            print(line, file=self.trace)
        self.fingerprint = hash((self.fingerprint, line))

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def fail(self, why: str) -> None:
        raise Broken(why)

    # -- messages ------------------------------------------------------------------------------

    def new(self, family: str, queue: str, room: int = 0) -> Message:
        """A message that a producer is about to add."""
        self._last += 1
        body = b"%s-%d" % (family.encode(), self._last)
        message = Message(body + b"." * room, family, queue)
        self.messages[family, body] = message
        return message

    def also(self, family: str, message: Message) -> Message:
        """The same message, as another family or group sees it."""
        twin = Message(message.body, family, message.queue)
        self.messages[family, message.body.rstrip(b".")] = twin
        return twin

    def find(self, family: str, body: bytes) -> Message:
        found = self.messages.get((family, body.rstrip(b".")))
        if found is None or found.body != body:
            self.fail(f"{family}: a body that nobody added: {body[:60]!r}")
        assert found is not None
        return found

    def delivered(self, message: Message, by: str, connection: Connection, lease_s: float) -> Hold:
        """A consumer read a delivery. For `lease_s` it surely has the message."""
        moment = connection.moment
        name = message.body.rstrip(b".").decode()
        if message.added == "refused":
            self.fail(f"{name} was refused, and delivered to {by}")
        if message.removed is not None and message.removed.to_s < moment.from_s:
            self.fail(f"{name} came back to {by}: removed at {message.removed}, sent at {moment}")
        if message.once and message.deliveries:
            self.fail(f"{name} was delivered twice, and may be delivered once; the last to {by}")
        for hold in message.holds:
            is_earlier = hold.moment.to_s < moment.from_s
            if not hold.is_void and is_earlier and hold.moment.from_s + hold.lease_s > moment.to_s:
                self.fail(
                    f"{name} has two holders: {hold.by} since {hold.moment} for"
                    f" {hold.lease_s:.3f} s at least, and {by} at {moment}"
                )
        message.deliveries += 1
        if message.added == "asked":
            message.added = "stored"
        message.holds = [it for it in message.holds if not it.is_void]
        hold = Hold(by, moment, lease_s, connection, is_given_back=message.releases > 0)
        message.holds.append(hold)
        return hold

    def removed(self, message: Message, moment: Moment, did: bool) -> None:
        """An ack was answered: the message existed, or not."""
        if not did and message.must_be_there:
            self.fail(f"{message.body.rstrip(b'.').decode()} is unknown to the broker: lost")
        if message.removed is None:
            message.removed = moment

    def check_end(self, family: str, found: list[bytes]) -> None:
        """These bodies are in the broker in the end, and no others."""
        names = [body.rstrip(b".") for body in found]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            self.fail(f"{family}: in the queues twice: {sorted(twice)[:5]}")
        there = set(names)
        for (its, name), message in self.messages.items():
            if its != family:
                continue
            if message.must_be_there and name not in there:
                self.fail(f"{name.decode()} of {message.queue} is lost")
            if name in there and message.removed is not None:
                self.fail(f"{name.decode()} of {message.queue} is there, and was removed")
            if name in there and message.added == "refused":
                self.fail(f"{name.decode()} of {message.queue} is there, and was refused")
        for name in there:
            if (family, name) not in self.messages:
                self.fail(f"{family}: in the queues, and added by nobody: {name!r}")
