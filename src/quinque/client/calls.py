"""Each operation on claims, stages, pages and the record as a request, and what its reply means.

Called by   broker.py, through CALLS; work_calls.py, whose rows are like these.
Calls       nothing.

If `is_safe`, the operation can be repeated after it took effect. Only these are sent again when a
connection is lost. A comment at each says why it is safe.

Not here: what a command takes (dialects/claims.py, stages.py, messages.py, lifecycle.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from quinque.client.link import Word
from quinque.errors import QuinqueError
from quinque.model.claim_ops import (
    ClaimState,
    ClaimView,
    DropClaims,
    FillClaim,
    FindClaims,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.families import BY_NAME
from quinque.model.look_ops import (
    BrowsePlaces,
    DividePlaces,
    FindRecords,
    Page,
    Places,
    ReadRecord,
    Record,
)
from quinque.model.ops import Op
from quinque.model.stage_ops import (
    DropStage,
    FindStages,
    Publish,
    Published,
    Stage,
    Staged,
    StageView,
)
from quinque.model.states import State

Request = Sequence[Word]


class Call(NamedTuple):
    """How to run an operation: `requests` are sent together, and `result` makes the result of their
    replies, in order. An error reply of the class `absent` stands for None. `waiting` makes
    requests that the broker answers as soon as there is a message, or after the wait in
    milliseconds. With `is_of_session` they are sent on a connection that has joined the client's
    session."""

    requests: Callable[[Any], list[Request]]
    result: Callable[[Any, list[Any]], Any]
    is_safe: bool | Callable[[Any], bool]
    absent: type[QuinqueError] | None = None
    waiting: Callable[[Any, int], list[Request]] | None = None
    is_of_session: bool = False

    def may_repeat(self, op: Op) -> bool:
        """Return whether a repeat of this operation is safe."""
        return self.is_safe if isinstance(self.is_safe, bool) else self.is_safe(op)


def as_map(reply: Any) -> dict[bytes, Any]:
    """Make a map of a RESP2 array of names and values in turn."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def asks(request: Callable[[Any], Request], result: Callable[[Any], Any], *, is_safe: bool) -> Call:
    """Make the row of an operation that is one request, and whose result depends only on the
    reply."""
    return Call(lambda op: [request(op)], lambda op, replies: result(replies[0]), is_safe)


def seconds(span_ms: int) -> str:
    """Write a duration as the older options of the families take it."""
    return f"{span_ms // 1000}.{span_ms % 1000:03}"


def _fill_waiting(op: FillClaim, wait_ms: int) -> list[Request]:
    return [_fill(op, wait_ms)]


def _fill(op: FillClaim, wait_ms: int = 0) -> Request:
    """Make a CLAIM.FILL, with a time to wait if there is one."""
    words = [*_held("CLAIM.FILL", op), "COUNT", op.count]
    words += ["UNTIL", op.until_place] if op.until_place else []
    words += ["SEAL"] if op.seals else []
    words += ["TIMEOUT", wait_ms] if wait_ms else []
    return [*words, *_shard(op)]


def _open(op: OpenClaims) -> Request:
    group: list[Word] = [] if op.family.is_worklist else ["GROUP", op.group]
    return [
        *("CLAIM.OPEN", op.queue, op.subscription, "FAMILY", op.family.name, *group),
        *("LEASE", op.lease_ms, "RELEASE", op.release_ms, *_shard(op)),
    ]


def _read(op: ReadClaim) -> Request:
    words = ("CLAIM.READ", op.queue, op.subscription, op.number, "CHUNK", op.chunk)
    return [*words, "CHUNKS", op.count, "PACKED", *_shard(op)]


def _play(op: PlayClaim) -> Request:
    return [*_held("CLAIM.PLAY", op), "KEEP", op.keep, *_shard(op)]


def _mark(op: MarkClaim) -> Request:
    delay: list[Word] = ["DELAY", op.delay_ms] if op.delay_ms else []
    reason: list[Word] = ["REASON", op.reason] if op.reason else []
    words = ("CLAIM.MARK", op.queue, op.subscription, op.number, op.outcome.name)
    epoch: list[Word] = ["EPOCH", op.epoch] if op.epoch else []
    return [*words, *delay, *reason, *epoch, *_shard(op), "IDS", *op.message_ids]


def _settle(op: SettleClaims) -> Request:
    return [*_held("CLAIM.SETTLE", op), *_shard(op)]


def _release(op: ReleaseClaims) -> Request:
    return [*_held("CLAIM.RELEASE", op), *_shard(op)]


def _renew(op: RenewClaims) -> Request:
    return ["CLAIM.RENEW", op.queue, op.subscription, op.epoch, *_shard(op)]


def _purge(op: PurgeClaims) -> Request:
    return ["CLAIM.PURGE", op.queue, op.subscription, op.number, *_shard(op)]


def _drop(op: DropClaims) -> Request:
    return ["CLAIM.DROP", op.queue, op.subscription, *_shard(op)]


def _look_at(op: LookAtClaims) -> Request:
    return ["CLAIM.INFO", op.queue, op.subscription, *_shard(op)]


def _find_claims(op: FindClaims) -> Request:
    return ["CLAIM.LIST"] if op.queue is None else ["CLAIM.LIST", op.queue]


def _held(command: str, op: FillClaim | PlayClaim | SettleClaims | ReleaseClaims) -> list[Word]:
    return [command, op.queue, op.subscription, op.epoch, op.number]


def _shard(op: Any) -> list[Word]:
    return ["SHARD", op.shard] if op.shard else []


def _subscription(reply: Any) -> SubscriptionView | None:
    if reply is None:
        return None
    told = as_map(reply)
    return SubscriptionView(
        family=BY_NAME[told[b"family"].decode()],
        queue=told[b"queue"],
        subscription=told[b"subscription"],
        group=told[b"group"],
        shard=told[b"shard"],
        shards=told[b"shards"],
        epoch=told[b"epoch"],
        settled=told[b"settled"],
        lease_ms=told[b"lease-ms"],
        release_ms=told[b"release-ms"],
        unrenewed_ms=told[b"unrenewed-ms"],
        is_stalled=bool(told[b"stalled"]),
        backlog=told[b"backlog"],
        oldest_ms=told[b"oldest-ms"],
        stamp_us=told[b"stamp-us"],
        claims=[_told_claim(each) for each in told[b"claims"]],
        created_us=told.get(b"created-us", 0),
    )


def _subscriptions(reply: Any) -> list[SubscriptionView | None]:
    return [_subscription(each) for each in reply]


def _claim(reply: Any) -> ClaimView | None:
    return None if reply is None else _told_claim(reply)


def _told_claim(reply: Any) -> ClaimView:
    told = as_map(reply)
    return ClaimView(
        number=told[b"number"],
        state=ClaimState[told[b"state"].decode().upper()],
        messages=told[b"messages"],
        body_bytes=told[b"body-bytes"],
        chunks=told[b"chunks"],
        plays=told[b"plays"],
        age_ms=told[b"age-ms"],
    )


def _stage(op: Stage) -> Request:
    batch = (op.family.name, op.queue, op.sink, op.run, op.number)
    writer: list[Word] = ["WRITER", op.writer] if op.writer else []
    return ["STAGE.ADD", *batch, op.part, op.attempt, op.chunk, op.rows, *writer]


def _publish(op: Publish) -> Request:
    batch = (op.family.name, op.queue, op.sink, op.run, op.number)
    parts = (number for part in op.parts for number in part)
    options: list[str | bytes | int] = ["COUNT", op.count, "KEEP", op.keep_ms]
    if op.content:
        options += ["CONTENT", op.content]
    return ["STAGE.PUBLISH", *batch, *options, "PARTS", *parts]


def _drop_stage(op: DropStage) -> Request:
    return ["STAGE.DROP", op.queue, op.sink, op.run, op.number]


def _find_stages(op: FindStages) -> Request:
    return ["STAGE.LIST"]


def _staged(reply: Any) -> Staged:
    return Staged(bool(reply[0]), reply[1])


def _published(reply: Any) -> Published:
    return Published(*reply)


def _stages(reply: Any) -> list[StageView]:
    return [
        StageView(
            queue=told[b"queue"],
            sink=told[b"sink"],
            run=told[b"run"],
            number=told[b"number"],
            is_decided=bool(told[b"decided"]),
            chunks=told[b"chunks"],
            body_bytes=told[b"body-bytes"],
            age_ms=told[b"age-ms"],
        )
        for told in map(as_map, reply)
    ]


def _browse(op: BrowsePlaces) -> Request:
    words = ("MESSAGES.PAGE", op.family.name, op.queue, op.after, op.until, "COUNT", op.count)
    return [*words, "STATES", _states(op.states), *_shard(op)]


def _divide(op: DividePlaces) -> Request:
    words = ("MESSAGES.DIVIDE", op.family.name, op.queue, op.parts)
    return [*words, "STATES", _states(op.states), *_shard(op)]


def _states(states: Sequence[State]) -> str:
    return ",".join(state.name.lower() for state in states)


def _page(reply: Any) -> Page:
    count, place, is_last, rows = reply
    return Page(rows, count, place, bool(is_last))


def _places(reply: Any) -> Places:
    return Places(*reply)


def _find_records(op: FindRecords) -> Request:
    return ["LIFECYCLE.SHARDS"]


def _read_record(op: ReadRecord) -> Request:
    return ["LIFECYCLE.READ", op.shard, op.start, "COUNT", op.count]


def _records(reply: Any) -> list[Record]:
    return [Record(*each) for each in reply]


def _as_it_is(reply: Any) -> Any:
    return reply


CALLS: Final[dict[type[Op], Call]] = {
    # The repeat returns a newer epoch, and the caller uses that one.
    OpenClaims: asks(_open, _subscription, is_safe=True),
    # Messages that the first attempt moved are in the claim and in the reply. A sealed claim is
    # full.
    FillClaim: asks(_fill, _claim, is_safe=True)._replace(waiting=_fill_waiting),
    # The repeat counts one read attempt too many. A claim that was cut is cut to the same size
    # again.
    PlayClaim: asks(_play, _claim, is_safe=True),
    # The repeat sets the same outcomes.
    MarkClaim: asks(_mark, _as_it_is, is_safe=True),
    # Claims that were committed, released, purged or dropped are not changed or counted.
    SettleClaims: asks(_settle, _as_it_is, is_safe=True),
    ReleaseClaims: asks(_release, _as_it_is, is_safe=True),
    PurgeClaims: asks(_purge, _as_it_is, is_safe=True),
    DropClaims: asks(_drop, _as_it_is, is_safe=True),
    DropStage: asks(_drop_stage, _as_it_is, is_safe=True),
    # The lease is extended once more.
    RenewClaims: asks(_renew, _as_it_is, is_safe=True),
    # A chunk replaces the chunk with the same number.
    Stage: asks(_stage, _staged, is_safe=True),
    # The first attempt decided; the repeat continues where it ended.
    Publish: asks(_publish, _published, is_safe=True),
    # The other operations change nothing.
    ReadClaim: asks(_read, _as_it_is, is_safe=True),
    LookAtClaims: asks(_look_at, _subscription, is_safe=True),
    FindClaims: asks(_find_claims, _subscriptions, is_safe=True),
    FindStages: asks(_find_stages, _stages, is_safe=True),
    BrowsePlaces: asks(_browse, _page, is_safe=True),
    DividePlaces: asks(_divide, _places, is_safe=True),
    FindRecords: asks(_find_records, _records, is_safe=True),
    ReadRecord: asks(_read_record, _as_it_is, is_safe=True),
}
