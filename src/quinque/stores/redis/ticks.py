"""Work on each slot without a client: opening, due changes, facts for INFO.

Called by   store.py.
Calls       claims.py, feeds.py and cleaning.py (settle those), records.py (facts); the scripts
            open, due, settle and info.

Not here: when a slot has something due (alarms.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from quinque.model.families import BY_CODE, ITEMS, TUBES
from quinque.model.limits import SETTLE_MOST
from quinque.stores.redis import (
    claims,
    cleaning,
    feeds,
    records,
    sessions,
    stages,
    whole_queues,
)
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import PARTITIONS, SESSIONS, slot_key
from quinque.stores.redis.slots import known_slots

# As info.lua counts them, after the queues, and without the events.
_FACTS: Final = (
    *("job_queues", "jobs", "claims_open", "claims_stalled", "claimed_messages", "stages"),
)
_TIMER: Final = 0  # what due.lua says in place of a family
_INFO_SLOTS: Final = 32  # asked together
_QUEUES_MOST: Final = 100  # of a slot settled at once, most of them with little to do


def open_slots(edge: Edge) -> Steps:
    """The clock and the stamps are not behind what is known in Redis, and the alarms of all slots
    are set."""
    rows = yield [Call("open", [slot_key(slot)], []) for slot in edge.slots]
    if rows:
        edge.clock.start_from(1000 * max(row[0] for row in rows))
        edge.stamp_us = max(edge.stamp_us, *(row[1] for row in rows))


def look_at_partitions(edge: Edge) -> Steps:
    """Read which work queues are partitioned."""
    (rows,) = yield [Call("find_partitions", [PARTITIONS], [])]
    edge.spread.learn(rows)


def look_round(slots: Iterable[int], edge: Edge) -> Steps:
    """The alarms of these slots are as all brokers together have set them, and no task there is
    taken by a session that is lost."""
    slots = list(slots)
    begun = edge.empty.begin_look()
    rows = yield [Call("open", [slot_key(slot)], []) for slot in slots]
    edge.empty.end_look(begun, {slot: row[3] == 1 for slot, row in zip(slots, rows, strict=True)})
    taken = [slot for slot, row in zip(slots, rows, strict=True) if row[2]]
    if taken:
        yield from sessions.look_for_lost(taken, edge)


def tick(slot: bytes, edge: Edge) -> Steps:
    """Carry out what is due in the slot, or a part of it."""
    if slot == SESSIONS:
        return (yield from sessions.settle(edge))
    timer, _ = yield from settle_queues(slot, edge)
    if timer == b"claim":
        yield from claims.settle_claims(slot, edge)
    elif timer == b"gone":
        yield from whole_queues.sweep(slot, edge)
    elif timer == b"swept":
        yield from whole_queues.sweep_tubes(slot, edge)
    elif timer:
        yield from stages.settle_stages(slot, edge)


def settle_queues(slot: bytes, edge: Edge, *, is_look: bool = False) -> Steps:
    """Carry out what is due in the queues of the slot, or a part of it; for a look, queues that are
    idle stay. The result is the kind of the first timer of the slot that is due, or nothing, and
    whether the state of a message may have changed."""
    now_ms = edge.now_ms()
    (due,) = yield [Call("due", [slot], [now_ms, _QUEUES_MOST])]
    names = {True: [], False: []}  # type: dict[bool, list[bytes]]
    item_queues: list[bytes] = []
    tubes: list[bytes] = []
    timer = b""
    for name, code in zip(due[::2], due[1::2], strict=True):
        if int(code) == _TIMER:
            timer = name
        elif int(code) == ITEMS.code:
            item_queues.append(name)
        elif int(code) == TUBES.code:
            tubes.append(name)
        else:
            names[BY_CODE[int(code)].is_worklist].append(name)
    calls: list[Call] = []
    if names[True]:
        argv: list[Arg] = [now_ms, SETTLE_MOST]
        for name in names[True]:
            argv += [name, b"" if is_look else int(name in edge.watched)]
        calls.append(Call("settle", [slot], argv))
    if names[False]:
        calls.append(feeds.settle_call(slot, names[False], edge))
    if tubes:
        calls.append(Call("settle_tubes", [slot], [TUBES.code, now_ms, SETTLE_MOST, *tubes]))
    counts: list[int] = yield calls
    if item_queues and not is_look:  # a look shows items whose leases have ended as ready
        yield from cleaning.settle_items(slot, item_queues, edge)
    return timer, any(counts)


def info(edge: Edge) -> Steps:
    """Return the facts of stores/base.py, added up over all slots."""
    facts: Counter[str] = Counter(dict.fromkeys(("queues", "messages", *_FACTS), 0))
    slots: list[int] = yield from known_slots(edge)
    rows: list[list[int]] = []
    for first in range(0, len(slots), _INFO_SLOTS):
        some = slots[first : first + _INFO_SLOTS]  # others have their turn in between
        rows += yield [Call("info", [slot_key(slot)], [edge.now_ms()]) for slot in some]
    for queues, worklists, messages, numbered, events, *more in rows:
        counts = (worklists, messages - numbered, *more)
        facts.update(queues=queues, messages=messages + events)
        facts.update(dict(zip(_FACTS, counts, strict=True)))
    of_record: dict[str, int | str] = yield from records.facts(edge)
    return {**facts, **of_record, "fsync": edge.fsync}
