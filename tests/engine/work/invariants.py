"""What is true of a worklist between any two events, whatever happened before.

Called by   tests/model after every step, the tests beside this file, tests/store where indexes are
            at stake.
Calls       nothing; it looks into the indexes of engine/work/worklist.py and what they consist of.
"""

from __future__ import annotations

from itertools import pairwise

from quinque.engine.work.directory import SHELF_BITS, Directory
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.order import Order
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.model.limits import NEVER_MS
from tests.engine.invariants import check_calendar


def check_worklist(queue: Worklist, now_ms: int = 0) -> None:
    """Every index of the worklist says the same as every other."""
    assert queue.in_order
    check_calendar(queue.expiries)
    check_calendar(queue.dues)
    for order in (queue.ready, queue.delayed, queue.dead):
        check_order(order)
    of: dict[int, list[WorkMessage]] = {READY: [], DELAYED: [], LEASED: [], DEAD: []}
    assert len(queue.all()) == len({id(message) for message in queue.all()}) == queue.size
    for message in queue.all():
        assert message.queue is queue
        assert queue.find(message.id) is message, "a message is in its queue and cannot be found"
        of[message.state].append(message)
        # What is over waits to be removed, or to be found dead before; one reminder of it is left.
        if not 0 < message.expires_ms <= now_ms:
            _check_message(queue, message)
    assert list(queue.ready) == in_order(of[READY])
    assert list(queue.delayed) == in_order(of[DELAYED])
    assert list(queue.dead) == in_order(of[DEAD])
    assert queue.leased == len(of[LEASED])
    if queue.turns is not None:
        assert queue.turns.keys() == {message.id for message in of[LEASED]}
        turns = list(queue.turns.values())
        assert turns == sorted(set(turns)), "deliveries are out of their order"
        assert not turns or turns[-1] <= queue.last_turn
    if queue.family.owns_ids:
        check_directory(queue.directory)
    for key, message in queue.keys.items():
        assert message.key == key
        assert queue.find(message.id) is message, "a key is of a message that is gone"
        assert message.state != DEAD, "a dead message has its key"
    next_ms = min(queue.expiries.next_ms, queue.dues.next_ms, queue.ends_ms)
    assert queue.soonest_ms <= next_ms, "unnoticed"
    assert queue.soonest_ms >= NEVER_MS or queue.alarm_ms <= queue.soonest_ms, "no alarm is set"


def check_directory(directory: Directory) -> None:
    """What can be found by id is on its shelf, and the shelves hold little else."""
    found = set()
    for at, shelf in directory._shelves.items():
        living = [message for message in shelf.messages if message.number]
        assert len(living) == shelf.living
        assert 2 * len(living) >= len(shelf.messages), "an untidy shelf"
        assert living or shelf is directory._newest, "an empty shelf is dropped"
        numbers = [message.number for message in living]
        assert numbers == sorted(set(numbers))
        assert all(number >> SHELF_BITS == at for number in numbers)
        found |= {message.id for message in living}
    assert found == directory.by_id.keys()
    assert all(message.id == id for id, message in directory.by_id.items())


def check_order(order: Order) -> None:
    """Blocks are short, sorted and follow each other, and what was said of them is so."""
    assert len(order._blocks) == len(order._separators) > 0
    assert order.size == sum(map(len, order._blocks))
    assert order._separators == sorted(order._separators)
    for at, block in enumerate(order._blocks):
        assert len(block) <= order._block_most
        assert block or len(order._blocks) == 1, "an empty block is dropped"
        if at:
            assert order._separators[at] <= block[0].place
    places = [message.place for message in order]
    assert places == sorted(set(places))


def in_order(messages: list[WorkMessage]) -> list[WorkMessage]:
    return sorted(messages, key=lambda message: message.place)


def _chained(queue: Worklist) -> list[WorkMessage]:
    """Every message of the worklist; the chain, read both ways, holds those that can be found."""
    messages = queue.all()
    assert queue.size == len(messages)
    found = [it for it in queue.directory.by_id.values() if it.queue is queue]
    assert {it.id: it for it in found} == {it.id: it for it in messages}
    if messages:
        assert messages[0] is queue._newest
        assert messages[0].after is None
    for after, before in pairwise(messages):
        assert before.after is after
        assert after.before is before
    return messages


def _check_message(queue: Worklist, message: WorkMessage) -> None:
    if message.state == DEAD:
        assert (message.expires_ms, message.due_ms) == (0, 0)
    else:
        if message.expires_ms:
            assert message.id in queue.expiries._days[message.expires_ms], "expiry has no reminder"
        if message.key is not None:
            assert queue.keys.get(message.key) is message, "a message lives and has lost its key"
    if message.state == READY:
        assert message.was_ready
        assert message.due_ms == 0
    if message.state in (DELAYED, LEASED) and message.due_ms < NEVER_MS:
        assert message.id in queue.dues._days[message.due_ms], "it would not come back"
    if message.state == DELAYED:
        assert 0 < message.due_ms < NEVER_MS
