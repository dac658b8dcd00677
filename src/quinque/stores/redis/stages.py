"""The operations by which many messages are put once, as steps.

Called by   runners.py, ticks.py (settle_stages).
Calls       the scripts stage_…, nodes.py (who accepts a message).

A batch lies in the slot of its queue's name, and what is published goes there, also if the queue is
spread: so one script moves messages and says that they have moved.

Staged messages are stored in pieces that a script can move without making other clients wait. Ids
of messages in worklists are drawn when they are staged, unless they are numbers. So a piece moves
within Redis.

Not here: what the scripts do (scripts/), how a chunk is packed (model/stage_ops.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgpack

from quinque.errors import BadArgument, NoReplicas, NoStage, OtherBatch, QueuePaused, WrongType
from quinque.model.families import BY_CODE, Family
from quinque.model.limits import PUBLISH_MOST, SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.rows import CHUNK_BYTES_MOST, CHUNK_ROWS_MOST
from quinque.model.stage_ops import (
    DropStage,
    FindStages,
    Publish,
    Published,
    Stage,
    Staged,
    StageView,
)
from quinque.model.work_ops import NodeView, Terms
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.event_ids import add_in_lane, lane_words
from quinque.stores.redis.event_lanes import Lane
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.nodes import known_node, stand_in
from quinque.stores.redis.slots import known_slots
from quinque.stores.staged_rows import Run, staged_runs

_SLOTS_AT_ONCE: Final = 256  # of a listing: most have no batch
_DUE_MOST: Final = 100  # batches that go by one call
_GO_ON_MOST: Final = 20  # operations by which one tick goes on with a batch


def settle_stages(slot: bytes, edge: Edge) -> Steps:
    """Carry out what is due in the batches of the slot."""
    is_more = 1
    while is_more:
        ((is_more, left),) = yield [Call("stage_due", [slot], [edge.now_ms(), _DUE_MOST])]
        for queue, sink, run, number, family, keep_ms, messages in left:
            batch = (BY_CODE[int(family)], queue, sink, run, number)
            op = Publish(*batch, (), PUBLISH_MOST, keep_ms)
            yield from _go_on(op, messages, edge)


def _go_on(op: Publish, messages: int, edge: Edge) -> Steps:
    """Publish the `messages` that are left of a decided batch, or many of them. If the queue takes
    nothing, a later tick tries again."""
    name = (op.queue, op.sink, op.run, op.number)
    for _ in range(_GO_ON_MOST):
        try:
            published: Published = yield from _publish(op, edge)
        except WrongType as error:
            edge.stuck.tell(name, messages, error)
            return
        except (NoReplicas, QueuePaused):
            return
        edge.stuck.ended(name)
        if not published.left:
            return


# -- one per operation ------------------------------------------------------------------------


def _stage(op: Stage, edge: Edge) -> Steps:
    runs = staged_runs(op.family, op.rows)
    if edge.spread.is_spread(op.queue) and any(run.name is not None for run in runs):
        raise BadArgument(
            "a queue with several PARTITIONS does not accept unique keys from a batch"
        )
    node: NodeView = yield from known_node(edge)
    argv = [*_about(op, edge), op.family.code, op.part, op.attempt, op.chunk]
    argv += [
        sum(len(run.bodies) for run in runs),
        sum(len(it) for run in runs for it in run.bodies),
        op.writer,
    ]
    argv += [_packed(op, some, edge, node.node_id) for some in _pieces(runs)]
    try:
        (reply,) = yield [Call("stage_add", [_slot(op)], argv, makes=True)]
    except OtherBatch as error:
        raise OtherBatch.is_replaced(op.sink, op.run, op.number) from error
    return Staged(reply[0] == 1, reply[1])


def _publish(op: Publish, edge: Edge) -> Steps:
    refusal: NoReplicas | None = yield from _refusal(op, edge)
    moved, left = 0, 1
    while left and moved < min(op.count, PUBLISH_MOST):
        make = partial(_publish_call, op, edge, refusal is not None)
        try:
            if op.family.is_worklist:
                (reply,) = yield [make(edge.take_stamps(CHUNK_ROWS_MOST), None)]
            else:
                slot = slot_of(op.queue)
                _, reply = yield from add_in_lane(edge, slot, CHUNK_ROWS_MOST, make)
        except NoStage as error:
            part, attempt = map(int, str(error).split())
            raise NoStage(op.sink, op.number, part, attempt) from error
        except OtherBatch as error:
            if str(error).isdigit():
                last = int(str(error))
                raise OtherBatch.is_late(op.sink, op.run, op.number, last) from error
            raise OtherBatch.differs(op.sink, op.run, op.number) from error
        except QueuePaused as error:
            raise QueuePaused(op.queue) from error
        except NoReplicas as error:
            if refusal is not None:
                raise refusal from error
            raise
        some, left, place = reply
        moved += some
        edge.stamp_us = max(edge.stamp_us, place)
    return Published(moved, left)


def _publish_call(
    op: Publish, edge: Edge, is_refused: bool, first_us: int, lane: Lane | None
) -> Call:
    until_ms = edge.now_ms() + op.keep_ms if op.keep_ms else 0
    argv = [*_about(op, edge), op.family.code, int(op.family.is_worklist)]
    argv += [int(op.queue in edge.watched), SETTLE_MOST, *lane_words(first_us, lane)]
    argv += [until_ms, int(is_refused), op.content]
    argv += [number for part in op.parts for number in part]
    return Call("stage_publish", [_slot(op)], argv, makes=True)


def _drop(op: DropStage, edge: Edge) -> Steps:
    (chunks,) = yield [Call("stage_drop", [_slot(op)], _about(op, edge))]
    return chunks


def _find(op: FindStages, edge: Edge) -> Steps:
    slots: Sequence[int] = [slot_of(op.only[0])] if op.only else (yield from known_slots(edge))
    argv: list[Arg] = [edge.now_ms(), op.most if op.sees is None else 0]
    calls = [Call("stage_find", [slot_key(slot)], argv) for slot in slots]
    at_once = _SLOTS_AT_ONCE if op.most else len(calls)
    found: list[StageView] = []
    while calls and not 0 < op.most < len(found):
        some, calls = calls[:at_once], calls[at_once:]
        replies = yield some
        found += [
            StageView(
                *(queue, sink, run, number),
                is_decided == 1,
                chunks,
                size_bytes,
                age_ms,
                _family_of(code),
            )
            for reply in replies
            for queue, sink, run, number, is_decided, chunks, size_bytes, age_ms, code in reply
            if op.only in (None, (queue, sink, run, number)) and (op.sees is None or op.sees(queue))
        ]
    return sorted(found, key=lambda view: (view.queue, view.sink, view.run, view.number))


def _family_of(code: bytes) -> Family | None:
    return BY_CODE[int(code)] if code else None


# -- shared steps -----------------------------------------------------------------------------


def _refusal(op: Publish, edge: Edge) -> Steps:
    """The error if no broker can accept messages of a worklist now; else None."""
    node: NodeView = yield from known_node(edge)
    if op.family.is_worklist and node.is_leaving:
        try:
            yield from stand_in(edge)
        except NoReplicas as error:
            return error
    return None


def _about(op: Any, edge: Edge) -> list[Arg]:
    """Return the start of ARGV for most of the scripts."""
    return [edge.now_ms(), op.queue, op.sink, op.run, op.number]


def _slot(op: Any) -> bytes:
    return slot_key(slot_of(op.queue))


def _pieces(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """The same messages in lots that one script can move."""
    piece: list[Run] = []
    count = size_bytes = 0
    for run in runs:
        bodies: list[bytes] = []
        for body in run.bodies:
            if count and (count == CHUNK_ROWS_MOST or size_bytes + len(body) > CHUNK_BYTES_MOST):
                yield [*piece, run._replace(bodies=bodies)] if bodies else piece
                piece, bodies = [], []
                count = size_bytes = 0
            bodies.append(body)
            count += 1
            size_bytes += len(body)
        piece.append(run._replace(bodies=bodies))
    yield piece


def _packed(op: Stage, runs: Sequence[Run], edge: Edge, node_id: bytes) -> bytes:
    """The runs as lib/stage_move.lua reads them: with ids, if they are chosen here."""
    listed: list[list[Any]] = []
    for run in runs:
        ids: list[bytes] = []
        if op.family.is_worklist and not op.family.numbers_ids:
            terms = Terms(run.ttl_ms, run.delay_ms, run.retry_ms, run.max_deliveries)
            ids = edge.new_ids(slot_of(op.queue), len(run.bodies), terms, node_id)
        listed.append([*run[:5], ids, run.bodies])
    # Redis's own msgpack does not know bytes from text.
    packed: bytes = msgpack.packb(listed, use_bin_type=False)
    return packed


RUNNERS: Final[dict[type[Op], Runner]] = {
    Stage: _stage,
    Publish: _publish,
    DropStage: _drop,
    FindStages: _find,
}
