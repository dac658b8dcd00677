"""Errors about queues, messages, claims and batches.

Called by   everything, through quinque.errors.
Calls       nothing.

Not here: those of tubes (tubes.py).
"""

from __future__ import annotations

from quinque.errors.base import QuinqueError, printable


class WrongType(QuinqueError):
    """The queue belongs to another family."""

    code = "WRONGTYPE"

    def __init__(self) -> None:
        super().__init__("Operation against a key holding the wrong kind of value")


class NoQueue(QuinqueError):
    """There is no queue of that name."""

    def __init__(self) -> None:
        super().__init__("no such key")


class EmptyKey(NoQueue):
    """There is no queue of that name, as RedisRQ says it: with no text."""

    code = "EMPTYKEY"

    def __init__(self) -> None:
        QuinqueError.__init__(self, "")


class Duplicate(QuinqueError):
    """The id the caller chose is already in the queue."""

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"duplicate event {printable(message_id)}")
        self.message_id = message_id


class BadId(QuinqueError):
    """The id of a message has the wrong format. Without the id, the text is that of Disque."""

    code = "BADID"

    def __init__(self, text: bytes | None = None) -> None:
        named = "Invalid Job ID format."
        super().__init__(named if text is None else f"'{printable(text[:64])}' is not a job id")


class NoMessage(QuinqueError):
    """The message does not exist, or no longer."""

    code = "NOJOB"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"no message {printable(message_id)}")


class TooLate(QuinqueError):
    """More than half of the message's time to live is over, so its lease is not extended."""

    code = "TOOLATE"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"more than half of the time to live of {printable(message_id)} is over")


class QueueFull(QuinqueError):
    """The queue has reached the MAXLEN of the request. The text is that of Disque."""

    code = "MAXLEN"
    retry = True

    def __init__(self) -> None:
        super().__init__("Queue is already longer than the specified MAXLEN count")


class QueuePaused(QuinqueError):
    """The queue refuses new messages until it is resumed."""

    code = "PAUSED"
    retry = True

    def __init__(self, queue: bytes) -> None:
        super().__init__(f"queue '{printable(queue)}' is paused and accepts no messages")


class NoReplicas(QuinqueError):
    """There are fewer nodes than requested copies; nothing was stored. The default text is that of
    Disque."""

    code = "NOREPL"
    retry = True

    def __init__(
        self, text: str = "Not enough reachable nodes for the requested replication level"
    ) -> None:
        super().__init__(text)


class Leaving(QuinqueError):
    """The node is draining, and clients cannot block on it."""

    code = "LEAVING"
    retry = True

    def __init__(self) -> None:
        super().__init__("this node is leaving; use another node")


class NoSubscription(QuinqueError):
    """The subscription does not exist on that queue."""

    code = "NOSUB"

    def __init__(self, subscription: bytes, queue: bytes) -> None:
        super().__init__(
            f"no subscription '{printable(subscription)}' on queue '{printable(queue)}'"
        )


class Superseded(QuinqueError):
    """Another reader has opened the subscription since, and reads it now."""

    code = "SUPERSEDED"

    def __init__(self, subscription: bytes, epoch: int, newest: int) -> None:
        super().__init__(
            f"epoch {epoch} of subscription '{printable(subscription)}' is no longer valid: "
            f"another reader opened it as epoch {newest}"
        )


class NoClaim(QuinqueError):
    """The claim does not exist, or cannot be read."""

    code = "NOCLAIM"

    def __init__(self, subscription: bytes, number: int, why: str) -> None:
        super().__init__(f"claim {number} of subscription '{printable(subscription)}' {why}")


class BadClaim(QuinqueError):
    """The claim cannot be started, or can no longer be filled."""

    code = "BADCLAIM"

    def __init__(self, subscription: bytes, number: int, why: str) -> None:
        super().__init__(f"claim {number} of subscription '{printable(subscription)}' {why}")


class NoStage(QuinqueError):
    """A part of the batch to publish is not completely staged."""

    code = "NOSTAGE"

    def __init__(self, sink: bytes, number: int, part: int, attempt: int) -> None:
        super().__init__(
            f"part {part} (attempt {attempt}) of batch {number} of sink '{printable(sink)}' is "
            "not completely staged"
        )
