"""The operations on claims, as steps.

Called by   runners.py, ticks.py (settle_claims).
Calls       the scripts claim_….

All of a subscription lies in the slot of its queue, or of the partition that it claims. A script
moves a thousand messages at most, so that other clients wait only a short time: larger operations
take several calls. Each call leaves a state from which any broker can go on; when the broker that
began is gone, a tick of another one does.

Not here: what the scripts do (scripts/), rows of messages (model/rows.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from quinque.errors import BadArgument, BadClaim, NoClaim, NoSubscription, Superseded, printable
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
from quinque.model.families import BY_CODE
from quinque.model.limits import FILL_MOST, FILL_MOST_BYTES, SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of_key
from quinque.stores.redis.slots import known_slots

_SLOTS_AT_ONCE: Final = 256  # of a listing: most have no subscription
_SEALS_IF_DRY: Final = 1  # as claim_fill.lua has them
_SEALS: Final = 2  # or as many came as were asked for


class _Of(Protocol):
    """An operation on one subscription."""

    queue: bytes
    subscription: bytes
    shard: int


class _WithEpoch(_Of, Protocol):
    epoch: int


class _WithNumber(_Of, Protocol):
    number: int


def settle_claims(slot: bytes, edge: Edge) -> Steps:
    """Carry out what is due in the claims of the slot."""
    is_more = 1
    while is_more:
        (is_more,) = yield [Call("claim_due", [slot], [edge.now_ms(), SETTLE_MOST])]


# -- one per operation ------------------------------------------------------------------------


def _open(op: OpenClaims, edge: Edge) -> Steps:
    family = op.family
    argv = [*_about(op, edge), SETTLE_MOST, family.code, int(family.is_worklist), op.group]
    argv += [op.lease_ms, op.release_ms]
    (view,) = yield [Call("claim_open", [_slot(op, edge)], argv, makes=True)]
    if view is None:
        raise BadArgument(
            f"subscription '{printable(op.subscription)}' has open claims of another group"
        )
    return _view(view, op.shard, edge)


def _fill(op: FillClaim, edge: Edge) -> Steps:
    left, room_bytes = min(op.count, FILL_MOST), FILL_MOST_BYTES
    while True:
        count = min(left, CHUNK_ROWS_MOST)
        seals = (_SEALS if count == left else _SEALS_IF_DRY) if op.seals else 0
        argv = [*_about(op, edge), int(op.queue in edge.watched), SETTLE_MOST, op.epoch]
        argv += [op.number, count, op.until_place, seals]
        reply = yield from _ask(op, Call("claim_fill", [_slot(op, edge)], argv))
        fields, taken, size_bytes, is_more = reply
        is_done = not is_more or taken == left
        left, room_bytes = left - taken, room_bytes - size_bytes
        if room_bytes <= 0:
            left, is_done = 0, is_done or not op.seals  # once more, to seal it
        if is_done:
            return _claim_view(fields) if fields is not None else None


def _read(op: ReadClaim, edge: Edge) -> Steps:
    argv: list[Arg] = [op.queue, op.subscription, op.number, op.chunk, op.count]
    argv += [FILL_MOST_BYTES, edge.now_ms(), SETTLE_MOST]
    return (yield from _ask(op, Call("claim_read", [_slot(op, edge)], argv)))


def _play(op: PlayClaim, edge: Edge) -> Steps:
    plays, is_more = 1, 1
    fields: Sequence[int] = ()
    while is_more:
        argv = [*_about(op, edge), SETTLE_MOST, op.epoch, op.number, op.keep, plays]
        fields, is_more = yield from _ask(op, Call("claim_play", [_slot(op, edge)], argv))
        plays = 0
    return _claim_view(fields)


def _mark(op: MarkClaim, edge: Edge) -> Steps:
    ids = list(dict.fromkeys(op.message_ids))
    marked = chunk = 0
    while True:
        argv = [*_about(op, edge), op.number, op.outcome.value, op.delay_ms, op.reason]
        argv += [SETTLE_MOST, chunk, op.epoch, *ids]
        some, chunk = yield from _ask(op, Call("claim_mark", [_slot(op, edge)], argv))
        marked += some
        if not chunk or marked == len(ids):
            return marked


def _settle(op: SettleClaims, edge: Edge) -> Steps:
    return (yield from _until_done("claim_settle", op, edge, [op.epoch, op.number]))


def _release(op: ReleaseClaims, edge: Edge) -> Steps:
    return (yield from _until_done("claim_release", op, edge, [op.epoch, op.number]))


def _drop(op: DropClaims, edge: Edge) -> Steps:
    return (yield from _until_done("claim_drop", op, edge, []))


def _purge(op: PurgeClaims, edge: Edge) -> Steps:
    return (yield from _until_done("claim_purge", op, edge, [op.number]))


def _renew(op: RenewClaims, edge: Edge) -> Steps:
    call = Call("claim_renew", [_slot(op, edge)], [*_about(op, edge), SETTLE_MOST, op.epoch])
    return (yield from _ask(op, call))


def _look(op: LookAtClaims, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, 0, op.queue, op.subscription]
    (views,) = yield [Call("claim_look", [_slot(op, edge)], argv)]
    return _view(views[0], op.shard, edge) if views else None


def _find(op: FindClaims, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, op.most if op.sees is None else 0]
    slots: Sequence[int]
    if op.queue is None:
        slots = yield from known_slots(edge)
    else:
        slots = edge.spread.read_slots(op.queue)
        argv.append(op.queue)
    calls = [Call("claim_look", [slot_key(slot)], argv) for slot in slots]
    at_once = _SLOTS_AT_ONCE if op.most else len(calls)
    found: list[SubscriptionView] = []
    rows = 0
    while calls and not 0 < op.most < rows:
        some, calls = calls[:at_once], calls[at_once:]
        replies = yield some
        for call, views in zip(some, replies, strict=True):
            slot = slot_of_key(call.keys[0])
            for fields in views:
                if op.sees is not None and not op.sees(fields[1]):
                    continue
                shards = list(edge.spread.read_slots(fields[1]))
                shard = shards.index(slot) if slot in shards else 0
                found.append(_view(fields, shard, edge))
                rows += 1 + len(found[-1].claims)
    return sorted(found, key=lambda view: (view.queue, view.subscription, view.shard))


# -- shared steps -----------------------------------------------------------------------------


def _about(op: _Of, edge: Edge) -> list[Arg]:
    """Return the start of ARGV for most of the scripts."""
    return [edge.now_ms(), op.queue, op.subscription]


def _slot(op: _Of, edge: Edge) -> bytes:
    """The key of the slot that the operation is about. Raises BadArgument."""
    slots = edge.spread.read_slots(op.queue)
    if not 0 <= op.shard < len(slots):
        raise BadArgument(f"no shard {op.shard}: the number of shards is {len(slots)}")
    return slot_key(slots[op.shard])


def _ask(op: Any, call: Call) -> Steps:
    """Return the answer of the script. Its errors name their subject."""
    try:
        (reply,) = yield [call]
    except NoSubscription as error:
        raise NoSubscription(op.subscription, op.queue) from error
    except Superseded as error:
        raise Superseded(op.subscription, op.epoch, int(str(error))) from error
    except (NoClaim, BadClaim) as error:
        raise type(error)(op.subscription, op.number, str(error)) from error
    return reply


def _until_done(script: str, op: Any, edge: Edge, argv: Sequence[Arg]) -> Steps:
    """Return the sum of all calls, or None if the script knows no subscription."""
    count, is_more = 0, 1
    while is_more:
        call = Call(script, [_slot(op, edge)], [*_about(op, edge), SETTLE_MOST, *argv])
        reply = yield from _ask(op, call)
        if reply is None:
            return None
        some, is_more = reply
        count += some
    return count


def _claim_view(fields: Sequence[int]) -> ClaimView:
    number, state, *counts = fields
    return ClaimView(number, ClaimState(state), *counts)


def _view(fields: Sequence[Any], shard: int, edge: Edge) -> SubscriptionView:
    family, queue, subscription, group, epoch, settled, lease_ms, release_ms, *rest = fields
    unrenewed_ms, is_stalled, backlog, oldest_ms, stamp_us, created_us, claims = rest
    return SubscriptionView(
        family=BY_CODE[int(family)],
        queue=queue,
        subscription=subscription,
        group=group,
        shard=shard,
        shards=len(edge.spread.read_slots(queue)),
        epoch=epoch,
        settled=settled,
        lease_ms=lease_ms,
        release_ms=release_ms,
        unrenewed_ms=unrenewed_ms,
        is_stalled=is_stalled == 1,
        backlog=backlog,
        oldest_ms=oldest_ms,
        stamp_us=stamp_us,
        claims=[_claim_view(claim) for claim in claims],
        created_us=created_us,
    )


RUNNERS: Final[dict[type[Op], Runner]] = {
    OpenClaims: _open,
    FillClaim: _fill,
    ReadClaim: _read,
    PlayClaim: _play,
    MarkClaim: _mark,
    SettleClaims: _settle,
    PurgeClaims: _purge,
    ReleaseClaims: _release,
    RenewClaims: _renew,
    LookAtClaims: _look,
    FindClaims: _find,
    DropClaims: _drop,
}
