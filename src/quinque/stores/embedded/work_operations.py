"""Operations that change worklists: settle, decide, append, apply.

Called by   store.py.
Calls       worklists.py (finds, settles, changes), engine/work/ (rules), names.py (ids, chance).

An operation on messages of several worklists is carried out worklist by worklist; the room that its
records need is checked before the first.

Not here: handing out (work_taking.py), operations that only look (work_looks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from quinque.engine.work import decide
from quinque.engine.work.apply import APPLY
from quinque.engine.work.lots import in_lots
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.views import queue_view
from quinque.engine.work.worklist import DEAD, Worklist
from quinque.errors import BadRequest, NoMessage, NoReplicas
from quinque.model.events import (
    FLUSHED,
    FORGOTTEN,
    Flushed,
    Forgotten,
    WorkEvent,
)
from quinque.model.families import Family
from quinque.model.limits import REDRIVE_MOST
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Announce,
    Configure,
    Extend,
    FindNodes,
    Finish,
    ForgetNode,
    Hold,
    LookAtNode,
    NodeView,
    Purge,
    PurgeAll,
    QueueView,
    Redrive,
    Requeue,
    SetNode,
)
from quinque.stores.embedded import slices
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.names import Names
from quinque.stores.embedded.slices import Slices
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.pending import Pending

_EVERY_STATE: Final = set(map(int, State))


class WorkOperations:
    def __init__(self, lists: Worklists, names: Names) -> None:
        self._books = lists.books
        self._lists = lists
        self._names = names
        self.runners: dict[type, Callable[[Any], Any]] = {
            Add: self._add,
            Finish: self._finish,
            Requeue: self._requeue,
            Hold: self._hold,
            Extend: self._extend,
            Configure: self._configure,
            Redrive: self._redrive,
            Purge: self._purge,
            PurgeAll: self._purge_all,
            LookAtNode: self._look_at_node,
            SetNode: self._set_node,
            Announce: self._announce,
            FindNodes: self._find_nodes,
            ForgetNode: self._forget_node,
        }

    def _add(self, op: Add) -> list[bytes]:
        books = self._books
        now_us = books.clock.now_us()
        place = now_us if now_us > books.stamp_us else books.stamp_us + 1
        books.at_ms = now_ms = now_us // 1000
        node = self._names.known_node()
        if node.is_leaving:
            raise NoReplicas("this node is leaving and accepts no new jobs; there is no other node")
        if op.terms.replicas > 1:
            raise NoReplicas
        queue = self._lists.settled(op.family, op.queue, now_ms)
        is_new = queue is None
        if queue is None:
            queue = Worklist(op.queue, op.family, self._lists.directory, now_ms)
        elif op.key is not None:
            holder = decide.holder_id(queue, op.key, now_ms)
            if holder is not None:
                return [holder]
        ids = self._names.new_ids(queue, len(op.bodies), op.terms, node.id)
        lots = in_lots(decide.add(queue, op, now_ms, place, ids))
        # The first takes the room of all, so that none of the others is refused.
        spare_bytes = SPARE_BYTES + self._lists.journal.bytes_of(lots[1:])
        for event in lots:
            self._lists.journal.append(event, spare_bytes)
            self._lists.put(queue, event)
            spare_bytes = 0
        if is_new:
            self._lists.keep(queue)
        books.set_alarm(queue)
        if not op.terms.delay_ms:
            self._lists.has_work(queue)
        return ids

    def _finish(self, op: Finish) -> list[bool]:
        found = self._lists.find_all(op.message_ids)
        if len(found) == 1:
            queue, messages = found[0]
            ids = [message.id for message in messages]
            self._lists.remove(queue, decide.finish(queue, ids, is_ack=op.is_ack))
        else:
            self._lists.run_all(
                (queue, [decide.finish(queue, [job.id for job in messages], is_ack=op.is_ack)])
                for queue, messages in found
            )
        return _results(op.message_ids, found)

    def _requeue(self, op: Requeue) -> list[bool]:
        done: set[bytes] = set()
        work: list[tuple[Worklist, Sequence[WorkEvent]]] = []
        for queue, messages in self._lists.find_all(op.message_ids):
            events, ids = decide.requeue(queue, op, messages, self._books.at_ms)
            work.append((queue, events))
            done |= ids
        self._lists.run_all(work)
        return _first_times(op.message_ids, done)

    def _hold(self, op: Hold) -> list[bool]:
        done: set[bytes] = set()
        work: list[tuple[Worklist, Sequence[WorkEvent]]] = []
        for queue, messages in self._lists.find_all(op.message_ids):
            events, ids = decide.hold(queue, messages, self._books.at_ms, self._names.jitter_ms())
            work.append((queue, events))
            done |= ids
        self._lists.run_all(work)
        return _first_times(op.message_ids, done)

    def _extend(self, op: Extend) -> int:
        found = self._lists.find_all([op.message_id])
        if not found or found[0][1][0].state == DEAD:
            raise NoMessage(op.message_id)
        queue, (message,) = found[0]
        event = decide.extend(queue, message, op, self._books.at_ms, self._names.jitter_ms())
        if event is not None:
            self._lists.run_all([(queue, [event])])
        return message.terms.retry_ms

    def _configure(self, op: Configure) -> QueueView:
        if op.partitions is not None and op.partitions > 1:
            raise BadRequest("PARTITIONS requires a store on a Redis Cluster")
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        queue = self._lists.settled(op.family, op.queue, now_ms)
        is_new = queue is None
        if queue is None:
            queue = Worklist(op.queue, op.family, self._lists.directory, now_ms)
        event = decide.configure(queue, op, now_ms)
        if is_new and not any(event[4:]):  # nothing is set, so it need not be made
            return queue_view(queue, now_ms)
        self._lists.journal.append(event)
        APPLY[event.kind](queue, event)
        if is_new:
            self._lists.keep(queue)
        queue.set_soonest()
        self._books.set_alarm(queue)
        self._lists.has_work(queue)
        return queue_view(queue, now_ms)

    def _redrive(self, op: Redrive) -> int:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        found: Sequence[tuple[Worklist, Sequence[WorkMessage]]]
        if op.queue is None:
            found = self._lists.find_all(op.message_ids)
        else:
            queue = self._lists.settled(op.family, op.queue, now_ms)
            if queue is None:
                return 0
            most = min(op.count or REDRIVE_MOST, REDRIVE_MOST, queue.dead.size)
            found = [(queue, queue.dead.first(most))]
        work: list[tuple[Worklist, Sequence[WorkEvent]]] = []
        count = 0
        for queue, messages in found:
            event = decide.redrive(queue, messages, now_ms)
            if event is not None:
                work.append((queue, [event]))
                count += len(event.ids)
        self._lists.run_all(work)
        return count

    def _purge(self, op: Purge) -> int | Pending:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        queue = self._lists.settled(op.family, op.queue, now_ms)
        if queue is None:
            return 0
        if op.forgets:
            return self._forget([queue])
        if not op.states:
            flushed = [(queue, [Flushed(FLUSHED, queue.name)])] if queue.size else []
            return self._lists.run_all(flushed)
        wanted = set(map(int, op.states))
        messages = queue.of_states(wanted)
        return self._books.sliced.do(messages, lambda some: self._remove_some(queue, some, wanted))

    def _remove_some(self, queue: Worklist, messages: list[WorkMessage], wanted: set[int]) -> int:
        """Remove those of the messages that are in these states still; return how many lived."""
        now_ms, living = self._books.at_ms, 0
        ids: list[bytes] = []
        for message in messages:
            if message.state in wanted and queue.find(message.id) is message:
                ids.append(message.id)
                living += not queue.has_ended(message, now_ms)
        if ids:
            self._lists.remove(queue, decide.purge(queue, ids))
        return living

    def _purge_all(self, op: PurgeAll) -> int | Pending:
        self._books.at_ms = self._books.clock.now_us() // 1000
        done: int | Pending = self._books.sliced.begin(self._purge_queues(op.family))
        return done

    def _purge_queues(self, family: Family) -> Slices:
        """Remove the worklists of the family with all that is in them now; return how many messages
        lived."""
        queues = [
            (queue, queue.directory.next)
            for queue in self._lists.queues.values()
            if isinstance(queue, Worklist) and queue.family is family
        ]
        mixed: list[tuple[Worklist, int]] = []  # of these, what came since stays

        def forget_some(some: list[tuple[Worklist, int]]) -> int:
            there = [it for it in some if self._lists.queues.get(it[0].name) is it[0]]
            mixed.extend(it for it in there if it[0].newest_number >= it[1])
            return self._forget([it[0] for it in there if it[0].newest_number < it[1]])

        living = yield from slices.in_slices(queues, slices.SLICE_QUEUES_MOST, forget_some)
        for queue, until in mixed:
            yield True
            messages = [it for it in queue.all() if it.number < until]
            living += yield from slices.in_slices(
                messages, slices.SLICE_MOST, partial(self._remove_some, queue, wanted=_EVERY_STATE)
            )
        return living

    def _forget(self, queues: Sequence[Worklist]) -> int:
        """Remove the queues with all that is in them; how many messages had not expired."""
        living = self._lists.run_all(
            [(queue, [Forgotten(FORGOTTEN, queue.name)]) for queue in queues]
        )
        for queue in queues:
            self._books.drop(queue)
            self._books.keep_claimed(queue)
        return living

    def _look_at_node(self, op: LookAtNode) -> NodeView:
        node = self._names.known_node()
        return NodeView(node.id, node.is_leaving, node.host, node.port)

    def _set_node(self, op: SetNode) -> NodeView:
        is_leaving = op.is_leaving
        if is_leaving is None:
            is_leaving = self._books.node.is_leaving
        self._names.set_node(is_leaving, is_renamed=op.is_renamed)
        return self._look_at_node(LookAtNode())

    def _announce(self, op: Announce) -> NodeView:
        self._books.node.host, self._books.node.port = op.host, op.port
        return self._look_at_node(LookAtNode())

    def _find_nodes(self, op: FindNodes) -> list[NodeView]:
        return [self._look_at_node(LookAtNode())]

    def _forget_node(self, op: ForgetNode) -> None:
        """There is no other."""


def _results(
    ids: Sequence[bytes], found: Sequence[tuple[Worklist, Sequence[WorkMessage]]]
) -> list[bool]:
    if len(found) == 1 and len(found[0][1]) == len(ids):
        return [True] * len(ids)
    return _first_times(ids, {message.id for _, some in found for message in some})


def _first_times(ids: Sequence[bytes], done: set[bytes]) -> list[bool]:
    """For each id whether it is done, the first time it is named; the set is used up."""
    results: list[bool] = []
    for id in ids:
        results.append(id in done)
        done.discard(id)
    return results
