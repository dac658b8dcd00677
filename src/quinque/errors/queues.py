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
    """What should be a message's id does not look like one. Without the text that was given, the
    words are Disque's."""

    code = "BADID"

    def __init__(self, text: bytes | None = None) -> None:
        named = "Invalid Job ID format."
        super().__init__(named if text is None else f"'{printable(text[:64])}' is not a job id")


class NoMessage(QuinqueError):
    """The message is not there, or not any more."""

    code = "NOJOB"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"{printable(message_id)} is not known here")


class TooLate(QuinqueError):
    """More than half of the message's life is over, so its lease is not prolonged."""

    code = "TOOLATE"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"more than half of the life of {printable(message_id)} is over")


class QueueFull(QuinqueError):
    """As many messages wait in the queue as the request allows. The words are Disque's."""

    code = "MAXLEN"
    retry = True

    def __init__(self) -> None:
        super().__init__("Queue is already longer than the specified MAXLEN count")


class QueuePaused(QuinqueError):
    """The queue takes nothing until it is resumed."""

    code = "PAUSED"
    retry = True

    def __init__(self, queue: bytes) -> None:
        super().__init__(f"queue '{printable(queue)}' is paused and takes nothing")


class NoReplicas(QuinqueError):
    """There are not that many nodes that could keep a copy; nothing was stored. Without a text, the
    words are Disque's."""

    code = "NOREPL"
    retry = True

    def __init__(
        self, text: str = "Not enough reachable nodes for the requested replication level"
    ) -> None:
        super().__init__(text)


class Leaving(QuinqueError):
    """The node is about to go and nobody should wait on it."""

    code = "LEAVING"
    retry = True

    def __init__(self) -> None:
        super().__init__("this node is leaving; wait on another one")


class NoSubscription(QuinqueError):
    """Nobody opened that subscription on that queue."""

    code = "NOSUB"

    def __init__(self, subscription: bytes, queue: bytes) -> None:
        super().__init__(
            f"no subscription '{printable(subscription)}' on queue '{printable(queue)}'"
        )


class Superseded(QuinqueError):
    """Somebody opened the subscription after the caller did, and reads it now."""

    code = "SUPERSEDED"

    def __init__(self, subscription: bytes, epoch: int, newest: int) -> None:
        super().__init__(
            f"epoch {epoch} of subscription '{printable(subscription)}' is over: "
            f"it was opened again, as epoch {newest}"
        )


class NoClaim(QuinqueError):
    """The claim is not there, or cannot be read."""

    code = "NOCLAIM"

    def __init__(self, subscription: bytes, number: int, why: str) -> None:
        super().__init__(f"claim {number} of subscription '{printable(subscription)}' {why}")


class BadClaim(QuinqueError):
    """The claim cannot be begun, or not filled any more."""

    code = "BADCLAIM"

    def __init__(self, subscription: bytes, number: int, why: str) -> None:
        super().__init__(f"claim {number} of subscription '{printable(subscription)}' {why}")


class NoStage(QuinqueError):
    """What is to be published is not staged as a whole."""

    code = "NOSTAGE"

    def __init__(self, sink: bytes, number: int, part: int, attempt: int) -> None:
        super().__init__(
            f"part {part} (attempt {attempt}) of batch {number} of sink '{printable(sink)}' "
            "is not staged as a whole"
        )
