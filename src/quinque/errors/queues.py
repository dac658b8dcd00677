"""Errors about queues, messages, claims and batches.

Called by   everything, through quinque.errors.
Calls       nothing.

Not here: those of tubes (tubes.py).
"""

from __future__ import annotations

from typing import ClassVar, Final

from quinque.errors.base import QuinqueError, printable

# By family: the command that removes a queue with its messages and settings.
REMOVED_WITH: Final = {
    "events": "QFLUSH {0}; leases and claims keep the name until they end (QACK, CLAIM.DROP)",
    "jobs": "QPURGE {0} FORGET",
    "reliable": "DEL {0}",
    "items": "quinque queue flush {0}",
    "tubes": "TUBE.RELEASEALL {0}, then TUBE.DROP {0}",
}


class WrongType(QuinqueError):
    """The queue belongs to another family. The text begins with that of Redis, to which clients
    compare it."""

    code = "WRONGTYPE"
    begins: ClassVar[str] = "Operation against a key holding the wrong kind of value"

    def __init__(self, why: str) -> None:
        super().__init__(f"{self.begins}: {why}")

    @classmethod
    def of_queue(cls, queue: bytes, family: str, *, is_claimed: bool = False) -> WrongType:
        """The queue belongs to that family. If `is_claimed`, the name stays in use until leases and
        claims end."""
        name = printable(queue[:128])
        way = REMOVED_WITH.get(family, "").format(name)  # the family of a later version is unknown
        if is_claimed:
            dropped = f"CLAIM.DROP {name} for each subscription of CLAIM.LIST {name}"
            way = f"{dropped}, then {way}" if way else dropped
        return cls(
            f"queue '{name}' belongs to the family {family}; use a command of that family or "
            "another name, or remove the queue" + (f" with {way}" if way else "")
        )

    @classmethod
    def of_batch(cls, sink: bytes, family: str) -> WrongType:
        """The batch has staged messages of that family."""
        return cls(
            f"the batch of sink '{printable(sink[:128])}' has messages of the family {family}; "
            "stage it for that family, or remove it first with STAGE.DROP"
        )

    @classmethod
    def of_subscription(cls, subscription: bytes, family: str) -> WrongType:
        """Open claims of the subscription are of that family."""
        return cls(
            f"subscription '{printable(subscription[:128])}' has open claims of the family "
            f"{family}; use another name, or drop the subscription first with CLAIM.DROP"
        )

    @classmethod
    def of_key(cls, key: bytes) -> WrongType:
        """Another program created that key in Redis."""
        return cls(
            f"the key '{printable(key[:128])}' in Redis is not a list; use another name, or "
            "delete the key in Redis first"
        )


class NoQueue(QuinqueError):
    """The queue does not exist."""

    def __init__(self) -> None:
        super().__init__("no such key")


class EmptyKey(NoQueue):
    """The queue does not exist, as RedisRQ reports it: without a text."""

    code = "EMPTYKEY"

    def __init__(self) -> None:
        QuinqueError.__init__(self, "")


class Duplicate(QuinqueError):
    """The id that the caller chose is already in the queue."""

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
        super().__init__(
            f"no message {printable(message_id)}; it was acked, deleted or expired, or it is dead"
        )


class TooLate(QuinqueError):
    """More than half of the message's time to live is over, so its lease is not extended."""

    code = "TOOLATE"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(
            f"more than half of the time to live of {printable(message_id)} is over; use WORKING "
            "with ANYTIME, or add jobs with a longer TTL"
        )


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
        name = printable(queue)
        super().__init__(
            f"queue '{name}' is paused and accepts no messages; resume it with PAUSE {name} none, "
            "or retry later"
        )


class NoReplicas(QuinqueError):
    """There are fewer nodes than requested copies; nothing was stored. The default text is that of
    Disque."""

    code = "NOREPL"
    retry = True
    begins: ClassVar[str] = "Not enough reachable nodes for the requested replication level"

    def __init__(self, text: str = begins) -> None:
        super().__init__(text)
        self.is_stored = False  # the store has to remove the message again

    @classmethod
    def of_redis(cls, copies: int, connected: int) -> NoReplicas:
        """The text of Disque, and after it the replicas that are missing, because HELLO lists
        brokers and a copy is a server of Redis."""
        replicas = "1 replica" if copies == 2 else f"{copies - 1} replicas"
        return cls(
            f"{cls.begins}: REPLICATE {copies} needs {replicas} of the Redis primary, "
            f"and it has {connected}; brokers keep no copies"
        )


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
            f"no subscription '{printable(subscription)}' on queue '{printable(queue)}'; open it "
            "with CLAIM.OPEN"
        )


class Superseded(QuinqueError):
    """The epoch is not the newest. Usually another reader has opened the subscription since."""

    code = "SUPERSEDED"

    def __init__(self, subscription: bytes, epoch: int, newest: int) -> None:
        name = printable(subscription)
        super().__init__(
            f"epoch {epoch} of subscription '{name}' does not exist: the newest epoch is {newest}"
            if epoch > newest or epoch < 1
            else f"epoch {epoch} of subscription '{name}' is no longer valid: another reader opened"
            f" it as epoch {newest}; stop this reader, or open the subscription again"
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
            "not completely staged; stage it again"
        )


class OtherBatch(QuinqueError):
    """The batch to publish is not the one that was published under its number, or the batch to
    stage is staged by a newer writer."""

    code = "OTHERBATCH"

    def __init__(self, sink: bytes, run: bytes, number: int, why: str) -> None:
        super().__init__(
            f"batch {number} of run '{printable(run)}' of sink '{printable(sink)}' {why}"
        )

    @classmethod
    def differs(cls, sink: bytes, run: bytes, number: int) -> OtherBatch:
        return cls(sink, run, number, "was published before with other contents")

    @classmethod
    def is_late(cls, sink: bytes, run: bytes, number: int, last: int) -> OtherBatch:
        return cls(sink, run, number, f"can no longer be published: batch {last} was")

    @classmethod
    def is_replaced(cls, sink: bytes, run: bytes, number: int) -> OtherBatch:
        return cls(sink, run, number, "is staged by a newer writer; stop this one")
