"""An operation of every kind that changes something, each on a store that has what it needs.

Called by   test_cut_bytes.py and test_script_faults.py, which break it in every place,
            test_full_server.py and test_replicas.py.
Calls       the store it is handed.

A case prepares the store and returns the operation. `None` stands for a tick: time has made
something due. Ids, times and chance are the same each time, so that two runs of a case leave the
same keys behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgpack
import redis

from quinque.model.claim_ops import (
    DropClaims,
    FillClaim,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    PurgeClaims,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
)
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.limits import QUEUE_IDLE_MOST_MS, STAGE_KEPT_MS
from quinque.model.ops import Ack, Flush, Op, Put, Release, Reserve
from quinque.model.own_ops import (
    RELIABLE_TERMS,
    AddItems,
    CleanItems,
    Complete,
    ExtendLeases,
    Recover,
    Undeliver,
)
from quinque.model.queue_ops import DeleteQueues, RenameQueue, SetExpiry
from quinque.model.stage_ops import DropStage, Part, Publish, Stage
from quinque.model.states import State
from quinque.model.tube_ops import (
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    JoinSession,
    KickTasks,
    LeaveSession,
    MakeTube,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TouchTasks,
    TruncateTube,
    TubeSettings,
)
from quinque.model.work_ops import (
    Add,
    Configure,
    Extend,
    Finish,
    Hold,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    SetNode,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.redis.keys import EVENT_IDS
from quinque.stores.redis.store import RedisStore
from tests.conformance import item_words, reliable_words, tube_words
from tests.redis.claim_words import read

Case = Callable[[RedisStore, ManualClock], Op | None]

MINUTE_MS: Final = 60_000
TERMS: Final = Terms(ttl_ms=10 * MINUTE_MS, retry_ms=MINUTE_MS)
LAST: Final = replace(TERMS, max_deliveries=1)
DELAYED: Final = replace(TERMS, delay_ms=1_000)
SHORT: Final = Terms(ttl_ms=1_000)
Q, G, W, S = b"q", b"g", b"w", b"s"
LONG: Final = b"x" * 1_025  # a body that has a key of its own
PARTS: Final = [Part(0, 0, 1)]


def open_same(url: str, clock: ManualClock, timeout_s: float) -> RedisStore:
    """A store that draws the same chance each time it is opened."""
    return RedisStore(url, clock=clock, chance=random.Random(1).randbytes, timeout_s=timeout_s)


# -- events ----------------------------------------------------------------------------------------


def put(store: RedisStore, **more: Any) -> list[bytes]:
    ids: list[bytes] = store.run(Put(EVENTS, Q, [b"1", b"2", b"3"], **more))
    return ids


def reserved(store: RedisStore, **more: Any) -> list[bytes]:
    put(store, **more)
    given = store.run(Reserve(EVENTS, Q, G, MINUTE_MS, 2))
    return [delivery.message_id for delivery in given]


def flushed(store: RedisStore) -> list[bytes]:
    ids = reserved(store)
    store.run(Flush(EVENTS, Q))
    return ids


def put_again(store: RedisStore, clock: ManualClock) -> Op:
    put(store)
    return Put(EVENTS, Q, [b"4", LONG], ttl_ms=MINUTE_MS)


def put_to_front(store: RedisStore, clock: ManualClock) -> Op:
    reserved(store)
    return Put(EVENTS, Q, [b"1"], message_id=b"x", to_front=True)


def reserve_again(store: RedisStore, clock: ManualClock) -> Op:
    store.run(Release(EVENTS, Q, G, reserved(store)))
    return Reserve(EVENTS, Q, G, MINUTE_MS, 3)


def lapse_events(store: RedisStore, clock: ManualClock) -> None:
    reserved(store)
    clock.advance(MINUTE_MS)


def expire_events(store: RedisStore, clock: ManualClock) -> None:
    reserved(store, ttl_ms=1_000)
    clock.advance(1_000)


EVENT_CASES: Final[dict[str, Case]] = {
    "put": lambda store, clock: Put(EVENTS, Q, [b"1", b"2"], ttl_ms=MINUTE_MS),
    "put more": put_again,
    "put with an id": lambda store, clock: Put(EVENTS, Q, [b"1"], message_id=b"x", is_single=True),
    "put to the front": put_to_front,
    "reserve": lambda store, clock: after(put(store), Reserve(EVENTS, Q, G, MINUTE_MS, 2)),
    "reserve again": reserve_again,
    "ack": lambda store, clock: Ack(EVENTS, Q, G, reserved(store)),
    "ack single": lambda store, clock: Ack(EVENTS, Q, G, reserved(store, is_single=True)),
    "ack flushed": lambda store, clock: Ack(EVENTS, Q, G, flushed(store)),
    "release": lambda store, clock: Release(EVENTS, Q, G, reserved(store)),
    "unget": lambda store, clock: Release(EVENTS, Q, G, reserved(store), is_uncounted=True),
    "extend events": lambda store, clock: ExtendLeases(EVENTS, Q, reserved(store), 90_000, G),
    "flush": lambda store, clock: after(reserved(store), Flush(EVENTS, Q)),
    "lapse events": lapse_events,
    "expire events": expire_events,
}

# -- jobs ------------------------------------------------------------------------------------------


def added(store: RedisStore, terms: Terms = TERMS, **more: Any) -> list[bytes]:
    bodies = [b"1"] if "key" in more else [b"1", b"2", LONG]
    ids: list[bytes] = store.run(Add(JOBS, W, bodies, terms, **more))
    return ids


def taken(store: RedisStore, terms: Terms = TERMS, **more: Any) -> list[bytes]:
    ids = added(store, terms, **more)
    store.run(Take(JOBS, [W], 2))
    return ids[:2]


def dead(store: RedisStore) -> list[bytes]:
    ids = taken(store, LAST)
    store.run(Requeue(JOBS, ids, is_nack=True))
    return ids


def add_to_full(store: RedisStore, clock: ManualClock) -> Op:
    added(store, SHORT)
    clock.advance(1_000)
    return Add(JOBS, W, [b"4"], TERMS, max_length=3)


def take_again(store: RedisStore, clock: ManualClock) -> Op:
    store.run(Requeue(JOBS, taken(store), is_nack=True))
    return Take(JOBS, [W], 3)


def take_what_is_due(store: RedisStore, clock: ManualClock) -> Op:
    taken(store)
    clock.advance(2 * MINUTE_MS)
    return Take(JOBS, [W], 3)


def finish_what_is_due(store: RedisStore, clock: ManualClock) -> Op:
    ids = taken(store)
    clock.advance(2 * MINUTE_MS)
    return Finish(JOBS, ids)


def undeliver_jobs(store: RedisStore, clock: ManualClock) -> Op:
    added(store)
    return Undeliver(JOBS, store.run(Take(JOBS, [W], 2)))


def lapse_jobs(store: RedisStore, clock: ManualClock) -> None:
    taken(store)
    clock.advance(2 * MINUTE_MS)


def end_delay(store: RedisStore, clock: ManualClock) -> None:
    added(store, DELAYED)
    clock.advance(1_000)


def expire_jobs(store: RedisStore, clock: ManualClock) -> None:
    added(store, SHORT)
    clock.advance(1_000)


def keep_expired(store: RedisStore, clock: ManualClock) -> None:
    store.run(Configure(JOBS, W, keeps_expired=True))
    expire_jobs(store, clock)


def forget_idle(store: RedisStore, clock: ManualClock) -> None:
    store.run(Finish(JOBS, added(store)))
    clock.advance(QUEUE_IDLE_MOST_MS)


def limited(store: RedisStore) -> list[bytes]:
    store.run(Configure(JOBS, W, rate=(1, 1_000)))
    return added(store)


JOB_CASES: Final[dict[str, Case]] = {
    "add": lambda store, clock: Add(JOBS, W, [b"1"], TERMS),
    "add more": lambda store, clock: after(added(store), Add(JOBS, W, [b"4", LONG], TERMS)),
    "add with a delay": lambda store, clock: Add(JOBS, W, [b"1"], DELAYED),
    "add with a key": lambda store, clock: Add(JOBS, W, [b"1"], TERMS, key=b"k"),
    "add to a full queue": add_to_full,
    "take": lambda store, clock: after(added(store), Take(JOBS, [W], 2)),
    "take again": take_again,
    "take what is due": take_what_is_due,
    "take at a rate": lambda store, clock: after(limited(store), Take(JOBS, [W], 2)),
    "finish": lambda store, clock: Finish(JOBS, taken(store)),
    "finish ready": lambda store, clock: Finish(JOBS, added(store), is_ack=False),
    "finish with a key": lambda store, clock: Finish(JOBS, taken(store, key=b"k")),
    "finish what is due": finish_what_is_due,
    "finish dead": lambda store, clock: Finish(JOBS, dead(store)),
    "requeue": lambda store, clock: Requeue(JOBS, taken(store), is_nack=False, delay_ms=1_000),
    "nack": lambda store, clock: Requeue(JOBS, taken(store), is_nack=True, reason=b"no luck"),
    "last nack": lambda store, clock: Requeue(JOBS, taken(store, LAST), is_nack=True),
    "unget jobs": undeliver_jobs,
    "hold": lambda store, clock: Hold(JOBS, added(store)[:2]),
    "extend": lambda store, clock: Extend(JOBS, taken(store)[0]),
    "configure": lambda store, clock: Configure(JOBS, W, is_paused_out=True, rate=(1, 1_000)),
    "spread": lambda store, clock: after(added(store), Configure(JOBS, W, partitions=2)),
    "redrive": lambda store, clock: Redrive(JOBS, dead(store)),
    "redrive the queue": lambda store, clock: after(dead(store), Redrive(JOBS, queue=W)),
    "purge": lambda store, clock: after(taken(store), Purge(JOBS, W)),
    "purge one state": lambda store, clock: after(taken(store), Purge(JOBS, W, [State.LEASED])),
    "purge all": lambda store, clock: after(taken(store), PurgeAll(JOBS)),
    "lapse jobs": lapse_jobs,
    "end a delay": end_delay,
    "expire jobs": expire_jobs,
    "keep expired jobs": keep_expired,
    "forget an idle queue": forget_idle,
    "leave": lambda store, clock: SetNode(is_leaving=True),
}

# -- reliable --------------------------------------------------------------------------------------

R: Final = reliable_words.QUEUE


def popped(store: RedisStore) -> list[bytes]:
    reliable_words.push(store, b"1", b"2", b"3")
    return [given.message_id for given in reliable_words.pop(store, 2)]


def unpop(store: RedisStore, clock: ManualClock) -> Op:
    reliable_words.push(store, b"1", b"2", b"3")
    return Undeliver(RELIABLE, reliable_words.pop(store, 2))


def recover(store: RedisStore, clock: ManualClock) -> Op:
    popped(store)
    clock.advance(1_000)
    return Recover(RELIABLE, R, 5, 1_000)


def rename(store: RedisStore, clock: ManualClock) -> Op:
    popped(store)
    reliable_words.push(store, b"4", queue=reliable_words.OTHER)
    return RenameQueue(RELIABLE, R, reliable_words.OTHER)


def expire_queue(store: RedisStore, clock: ManualClock) -> None:
    popped(store)
    reliable_words.expire(store, 1_000)
    clock.advance(1_000)


def pop_op() -> Op:
    return Take(RELIABLE, [R], 2, is_drained=True)


RELIABLE_CASES: Final[dict[str, Case]] = {
    "push": lambda store, clock: Add(RELIABLE, R, [b"1", b"2"], RELIABLE_TERMS),
    "pop": lambda store, clock: after(reliable_words.push(store, b"1", b"2", b"3"), pop_op()),
    "ack elements": lambda store, clock: Complete(RELIABLE, R, popped(store), is_leased=True),
    "recover": recover,
    "unpop": unpop,
    "delete": lambda store, clock: after(popped(store), DeleteQueues(RELIABLE, [R])),
    "rename": rename,
    "set an expiry": lambda store, clock: after(
        popped(store), SetExpiry(RELIABLE, R, clock.now_us() // 1000 + 1_000)
    ),
    "expire a queue": expire_queue,
}

# -- items -----------------------------------------------------------------------------------------

I: Final = item_words.ITEMS_QUEUE  # noqa: E741  (the first letter of its family)


def leased(store: RedisStore) -> list[bytes]:
    item_words.add(store, b"1", b"2", b"3")
    return item_words.lease(store, 2)


def lapse_items(store: RedisStore, clock: ManualClock) -> None:
    leased(store)
    clock.advance(MINUTE_MS)


def clean(store: RedisStore, clock: ManualClock, *, is_deep: bool = False) -> Op:
    leased(store)
    clock.advance(MINUTE_MS)
    return CleanItems(ITEMS, I, is_deep)


def give_back_items(store: RedisStore, clock: ManualClock) -> Op:
    item_words.add(store, b"1", b"2")
    (given,) = store.run(Take(ITEMS, [I], 1, lease_ms=MINUTE_MS))
    return ExtendLeases(ITEMS, I, [given.message_id], 1, deadline_ms=given.lease)


ITEM_CASES: Final[dict[str, Case]] = {
    "add items": lambda store, clock: AddItems(ITEMS, I, [b"1", b"2"], [b"a", b"b"]),
    "add more items": lambda store, clock: after(
        leased(store), AddItems(ITEMS, I, [b"3", b"4"], [b"c", b"d"], is_known_new=True)
    ),
    "lease": lambda store, clock: after(
        item_words.add(store, b"1", b"2"), Take(ITEMS, [I], 1, lease_ms=MINUTE_MS)
    ),
    "complete": lambda store, clock: Complete(ITEMS, I, leased(store), is_leased=False),
    "extend items": lambda store, clock: ExtendLeases(ITEMS, I, leased(store), 90_000),
    "give back items": give_back_items,
    "clean": clean,
    "clean deeply": lambda store, clock: clean(store, clock, is_deep=True),
    "purge items": lambda store, clock: after(leased(store), Purge(ITEMS, I)),
    "lapse items": lapse_items,
}

# -- tubes -----------------------------------------------------------------------------------------

T, ANN = tube_words.TUBE, tube_words.ANN


def tasks(store: RedisStore, kind: bytes = b"fifottl", **terms: Any) -> list[bytes]:
    tube_words.begin(store, kind)
    return tube_words.put(store, b"1", b"2", LONG, **terms)


def taken_tasks(store: RedisStore, kind: bytes = b"fifottl", **terms: Any) -> list[bytes]:
    tasks(store, kind, **terms)
    return tube_words.take(store, 2)


def buried(store: RedisStore) -> object:
    return tube_words.bury(store, *taken_tasks(store))


def lapse_tasks(store: RedisStore, clock: ManualClock) -> None:
    taken_tasks(store, ttr_ms=1_000)
    clock.advance(1_000)


def expire_tasks(store: RedisStore, clock: ManualClock) -> None:
    tasks(store, ttl_ms=1_000)
    clock.advance(1_000)


def end_session(store: RedisStore, clock: ManualClock) -> None:
    taken_tasks(store)
    tube_words.leave(store, keep_ms=1_000)
    clock.advance(1_000)


TUBE_CASES: Final[dict[str, Case]] = {
    "make": lambda store, clock: MakeTube(T, b"fifo", TubeSettings()),
    "put tasks": lambda store, clock: after(
        tasks(store), PutTasks(T, [b"4", LONG], TaskTerms(pri=1))
    ),
    "put delayed tasks": lambda store, clock: after(
        tasks(store), PutTasks(T, [b"4"], TaskTerms(delay_ms=1_000))
    ),
    "put into a lane": lambda store, clock: after(
        tasks(store, b"utube", lane=b"a"), PutTasks(T, [b"4"], TaskTerms(lane=b"a"))
    ),
    "take tasks": lambda store, clock: after(tasks(store), TakeTasks(T, ANN, 2)),
    "take of a lane": lambda store, clock: after(
        tasks(store, b"utube", lane=b"a"), TakeTasks(T, ANN, 2)
    ),
    "ack tasks": lambda store, clock: AckTasks(T, ANN, taken_tasks(store)),
    "ack of a lane": lambda store, clock: AckTasks(T, ANN, taken_tasks(store, b"utube", lane=b"a")),
    "release tasks": lambda store, clock: ReleaseTasks(T, ANN, taken_tasks(store), delay_ms=1_000),
    "touch": lambda store, clock: TouchTasks(T, ANN, taken_tasks(store), 1_000),
    "bury": lambda store, clock: BuryTasks(T, taken_tasks(store)),
    "delete tasks": lambda store, clock: DeleteTasks(T, tasks(store)),
    "kick": lambda store, clock: after(buried(store), KickTasks(T, 2)),
    "return tasks": lambda store, clock: after(taken_tasks(store), ReturnTasks(T)),
    "truncate": lambda store, clock: after(tasks(store), TruncateTube(T)),
    "drop": lambda store, clock: after(tasks(store), DropTube(T)),
    "lapse tasks": lapse_tasks,
    "expire tasks": expire_tasks,
    "join": lambda store, clock: JoinSession(ANN, is_new=True),
    "leave a session": lambda store, clock: after(taken_tasks(store), LeaveSession(ANN)),
    "leave a session for a while": lambda store, clock: after(
        taken_tasks(store), LeaveSession(ANN, 1_000)
    ),
    "end a session": end_session,
}

# -- claims and stages -----------------------------------------------------------------------------


def opened(store: RedisStore, family: Any = JOBS) -> int:
    if family is JOBS:
        added(store)
    else:
        put(store)
    queue, group = (W, b"") if family is JOBS else (Q, G)
    view = store.run(OpenClaims(family, queue, S, group, 10_000))
    epoch: int = view.epoch
    return epoch


def filled(store: RedisStore, family: Any = JOBS) -> int:
    epoch = opened(store, family)
    store.run(FillClaim(W if family is JOBS else Q, S, epoch, 1, 2, seals=True))
    return epoch


def mark(store: RedisStore, clock: ManualClock) -> Op:
    epoch = opened(store)
    store.run(FillClaim(W, S, epoch, 1, 2, seals=True))
    return MarkClaim(W, S, 1, Outcome.NACK, [first_claimed(store)])


def first_claimed(store: RedisStore) -> bytes:
    id: bytes = read(store, 1)[0].id
    return id


def settle_marked(store: RedisStore, clock: ManualClock) -> Op:
    epoch = filled(store)
    store.run(MarkClaim(W, S, 1, Outcome.NACK, [first_claimed(store)]))
    return SettleClaims(W, S, epoch, 1)


def renew(store: RedisStore, clock: ManualClock) -> Op:
    epoch = filled(store)
    clock.advance(1_000)
    return RenewClaims(W, S, epoch)


def purge_claims(store: RedisStore, clock: ManualClock) -> Op:
    store.run(SettleClaims(W, S, filled(store), 1))
    return PurgeClaims(W, S, 1)


def forfeit(store: RedisStore, clock: ManualClock) -> None:
    added(store)
    view = store.run(OpenClaims(JOBS, W, S, b"", 10_000, release_ms=1_000))
    store.run(FillClaim(W, S, view.epoch, 1, 2, seals=True))
    clock.advance(11_000)


def staged(store: RedisStore) -> object:
    return store.run(stage_op())


def stage_op(part: int = 0) -> Op:
    rows: bytes = msgpack.packb([[0, 0, -1, 0, None, [b"1", b"2", LONG]]])
    return Stage(JOBS, W, b"k", b"r", 1, part, 0, 0, rows)


def stage_events(store: RedisStore) -> object:
    rows: bytes = msgpack.packb([[0, 0, 0, 0, None, [b"1", b"2"]]])
    return store.run(Stage(EVENTS, Q, b"k", b"r", 1, 0, 0, 0, rows))


def forget_stage(store: RedisStore, clock: ManualClock) -> None:
    staged(store)
    clock.advance(STAGE_KEPT_MS)


BATCH_CASES: Final[dict[str, Case]] = {
    "open claims": lambda store, clock: after(added(store), OpenClaims(JOBS, W, S, b"", 10_000)),
    "open claims of events": lambda store, clock: after(
        put(store), OpenClaims(EVENTS, Q, S, G, 10_000)
    ),
    "fill": lambda store, clock: FillClaim(W, S, opened(store), 1, 2, seals=True),
    "fill with events": lambda store, clock: FillClaim(
        Q, S, opened(store, EVENTS), 1, 2, seals=True
    ),
    "play": lambda store, clock: PlayClaim(W, S, filled(store), 1),
    "mark": mark,
    "settle": lambda store, clock: SettleClaims(W, S, filled(store), 1),
    "settle what was marked": settle_marked,
    "settle events": lambda store, clock: SettleClaims(Q, S, filled(store, EVENTS), 1),
    "release a claim": lambda store, clock: ReleaseClaims(W, S, filled(store), 1),
    "release events of a claim": lambda store, clock: ReleaseClaims(Q, S, filled(store, EVENTS), 1),
    "renew": renew,
    "purge claims": purge_claims,
    "drop claims": lambda store, clock: after(filled(store), DropClaims(W, S)),
    "forfeit": forfeit,
    "stage": lambda store, clock: stage_op(),
    "stage more": lambda store, clock: after(staged(store), stage_op(1)),
    "publish": lambda store, clock: after(
        staged(store), Publish(JOBS, W, b"k", b"r", 1, PARTS, 99, keep_ms=1_000)
    ),
    "publish events": lambda store, clock: after(
        stage_events(store), Publish(EVENTS, Q, b"k", b"r", 1, PARTS, 99)
    ),
    "drop a stage": lambda store, clock: after(staged(store), DropStage(W, b"k", b"r", 1)),
    "forget a stage": forget_stage,
}

NAMES: Final = (Q, W, R, I, T)  # of the queues
CASES: Final = {
    **EVENT_CASES,
    **JOB_CASES,
    **RELIABLE_CASES,
    **ITEM_CASES,
    **TUBE_CASES,
    **BATCH_CASES,
}

# The client is gone and gets no reply: what was not done is done with the next beat.
WITHOUT_REPLY: Final = frozenset({"leave a session", "leave a session for a while"})
# No replica has to confirm what these change: after a failover it is due again, or it is not about
# messages.
UNAWAITED: Final = frozenset(
    {
        *("lapse events", "expire events", "lapse jobs", "end a delay", "expire jobs"),
        *("keep expired jobs", "forget an idle queue", "expire a queue", "lapse items"),
        *("lapse tasks", "expire tasks", "end a session", "forfeit", "forget a stage", "leave"),
    }
)


def after(done: object, op: Op) -> Op:
    """The operation, once the other thing is done."""
    return op


def seen(client: redis.Redis) -> dict[bytes, Any]:
    """What is in all keys, in an order that does not depend on how they came to be. Without the
    numbers of brokers, which are leased to random names."""
    keys: list[Any] = sorted(set(client.keys()) - {EVENT_IDS})
    with client.pipeline(transaction=False) as asked:
        for key in keys:
            asked.type(key)
        types = asked.execute()
        for key, kind in zip(keys, types, strict=True):
            _READ[kind](asked, key)
        values = asked.execute()
    return dict(zip(keys, values, strict=True))


_READ: Final[dict[bytes, Any]] = {
    b"string": lambda asked, key: asked.get(key),
    b"hash": lambda asked, key: asked.hgetall(key),
    b"set": lambda asked, key: asked.smembers(key),
    b"zset": lambda asked, key: asked.zrange(key, 0, -1, withscores=True),
    b"list": lambda asked, key: asked.lrange(key, 0, -1),
    b"stream": lambda asked, key: asked.xrange(key),
}
