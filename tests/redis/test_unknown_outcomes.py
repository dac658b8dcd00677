"""The connection to Redis breaks in the middle of an operation: all or nothing happened, it is said
how much is known of that, and doing it once more does no harm.

The requests of one broker go through a proxy that cuts them, or their replies, at a given byte; the
other broker sees what became of it. Beside them is an embedded store, of which is known what it has
done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from quinque.errors import NotDone, StoreUnavailable
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import JITTER_MS
from quinque.model.ops import Ack, Flush, Op, Put, Release, Reserve
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Configure,
    Extend,
    Finish,
    Hold,
    LookAt,
    LookAtNode,
    Purge,
    Redrive,
    Requeue,
    ScanMessages,
    Take,
    Terms,
)
from quinque.stores.redis.script_texts import FOLDER
from quinque.stores.redis.scripts import SCRIPTS
from tests.model.pair import Pair
from tests.servers.cutting_proxy import CuttingProxy
from tests.servers.redis_server import RedisServer

FEEDS: Final = (b"q",)
GROUPS: Final = (b"g",)
LISTS: Final = (b"v", b"w")
WELL, CUT = 0, 1  # brokers
TERMS: Final = Terms(ttl_ms=600_000, retry_ms=60_000)
LAST: Final = Terms(ttl_ms=600_000, retry_ms=60_000, max_deliveries=1)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """It knows all scripts: to none of them it answers that it has to be sent as a whole."""
    with RedisServer() as running, running.client() as client:
        for path in FOLDER.glob("*.lua"):
            client.script_load(SCRIPTS[path.stem].text)
        yield running


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[CuttingProxy]:
    with CuttingProxy("127.0.0.1", server.port) as running:
        yield running


@pytest.fixture
def pair(server: RedisServer, proxy: CuttingProxy) -> Iterator[Pair]:
    made = Pair([server.url, proxy.url], server)
    # Whoever makes the first queue of a slot says so first; here that has been done.
    for queue in (*FEEDS, *LISTS):
        made.run(Put(EVENTS, queue, [b""]), CUT)
        made.run(Flush(EVENTS, queue), CUT)
    yield made
    made.close()


# -- operations, each after what it needs --------------------------------------------------------


def _add(pair: Pair, queue: bytes = b"v", terms: Terms = TERMS) -> list[bytes]:
    ids: list[bytes] = pair.run(Add(JOBS, queue, [b"1", b"2", b"3"], terms))
    return ids


def _taken(pair: Pair, terms: Terms = TERMS) -> list[bytes]:
    ids = _add(pair, terms=terms)
    pair.run(Take(JOBS, [b"v"], 2))
    return ids[:2]


def _dead(pair: Pair) -> list[bytes]:
    ids = _taken(pair, LAST)
    pair.run(Requeue(JOBS, ids, is_nack=True))
    return ids


def _put(pair: Pair) -> list[bytes]:
    ids: list[bytes] = pair.run(Put(EVENTS, b"q", [b"1", b"2", b"3"]))
    return ids


def _reserved(pair: Pair) -> list[bytes]:
    _put(pair)
    given = pair.run(Reserve(EVENTS, b"q", b"g", 60_000, 2))
    return [delivery.message_id for delivery in given]


def _reserve(pair: Pair) -> Op:
    _put(pair)
    return Reserve(EVENTS, b"q", b"g", 60_000, 2)


def _add_with_key(pair: Pair) -> Op:
    _add(pair)
    return Add(JOBS, b"v", [b"4"], TERMS, key=b"k")


# Each is one call of a script.
CASES: Final[dict[str, Callable[[Pair], Op]]] = {
    "put": lambda pair: Put(EVENTS, b"q", [b"1", b"2"], ttl_ms=60_000),
    "put with an id": lambda pair: Put(EVENTS, b"q", [b"1"], message_id=b"x", is_single=True),
    "put to the front": lambda pair: Put(EVENTS, b"q", [b"1"], message_id=b"x", to_front=True),
    "reserve": _reserve,
    "ack": lambda pair: Ack(EVENTS, b"q", b"g", _reserved(pair)),
    "release": lambda pair: Release(EVENTS, b"q", b"g", _reserved(pair)),
    "flush": lambda pair: after(_reserved(pair), Flush(EVENTS, b"q")),
    "add": lambda pair: Add(JOBS, b"v", [b"1", b"2"], TERMS),
    "add with a delay": lambda pair: Add(JOBS, b"v", [b"1"], Terms(60_000, 1_000)),
    "add with a key": _add_with_key,
    "take": lambda pair: after(_add(pair), Take(JOBS, [b"v"], 2)),
    "finish": lambda pair: Finish(JOBS, _taken(pair)),
    "requeue": lambda pair: Requeue(JOBS, _taken(pair), is_nack=False, delay_ms=1_000),
    "nack": lambda pair: Requeue(JOBS, _taken(pair), is_nack=True, reason=b"no luck"),
    "last nack": lambda pair: Requeue(JOBS, _taken(pair, LAST), is_nack=True),
    "hold": lambda pair: Hold(JOBS, _add(pair)[:2]),
    "extend": lambda pair: Extend(JOBS, _taken(pair)[0]),
    "configure": lambda pair: Configure(JOBS, b"v", is_paused_out=True, rate=(1, 1_000)),
    "redrive": lambda pair: Redrive(JOBS, _dead(pair)),
    "redrive the queue": lambda pair: after(_dead(pair), Redrive(JOBS, queue=b"v")),
    "purge": lambda pair: after(_taken(pair), Purge(JOBS, b"v")),
    "purge one state": lambda pair: after(_taken(pair), Purge(JOBS, b"v", [State.LEASED])),
}


def _taken_from_both(pair: Pair) -> list[bytes]:
    ids = [*_add(pair), *_add(pair, b"w")]
    pair.run(Take(JOBS, LISTS, 6))
    return ids


def _dead_in_both(pair: Pair) -> list[bytes]:
    ids = [*_add(pair, terms=LAST), *_add(pair, b"w", LAST)]
    pair.run(Take(JOBS, LISTS, 6))
    pair.run(Requeue(JOBS, ids, is_nack=True))
    return ids


# Each is a call for each of two slots.
CASES_OF_SEVERAL: Final[dict[str, Callable[[Pair], Op]]] = {
    "finish": lambda pair: Finish(JOBS, _taken_from_both(pair)),
    "requeue": lambda pair: Requeue(JOBS, _taken_from_both(pair), is_nack=False),
    "nack": lambda pair: Requeue(JOBS, _taken_from_both(pair), is_nack=True),
    "hold": lambda pair: Hold(JOBS, [*_add(pair), *_add(pair, b"w")]),
    "redrive": lambda pair: Redrive(JOBS, _dead_in_both(pair)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_request_that_did_not_arrive_whole_has_done_nothing(
    pair: Pair, proxy: CuttingProxy, name: str
) -> None:
    op = CASES[name](pair)
    for cut_bytes in (0, 1, 50):
        warm(pair)
        proxy.cut(to_server=cut_bytes)
        outcome = pair.run_alone(op, CUT)
        proxy.go_on()
        assert outcome[0] in (StoreUnavailable, NotDone), outcome
        pair.look(FEEDS, GROUPS, LISTS, WELL)

    pair.run(op, CUT)

    pair.look(FEEDS, GROUPS, LISTS, WELL)


@pytest.mark.parametrize("cut_bytes", [0, 20])
@pytest.mark.parametrize("name", CASES)
def test_what_was_done_unheard_may_be_done_again(
    pair: Pair, proxy: CuttingProxy, name: str, cut_bytes: int
) -> None:
    op = CASES[name](pair)
    warm(pair)

    proxy.cut(to_client=cut_bytes)
    outcome = pair.run_alone(op, CUT)
    proxy.go_on()

    assert outcome[0] is StoreUnavailable, outcome
    pair.catch_up(op)
    pair.look(FEEDS, GROUPS, LISTS, WELL)
    living = bodies(pair)
    pair.run(op, CUT)
    pair.look(FEEDS, GROUPS, LISTS, WELL)
    assert living <= bodies(pair), "the second time took something away"


@pytest.mark.parametrize("part", [0.3, 0.75, 1])
@pytest.mark.parametrize("name", CASES_OF_SEVERAL)
def test_what_was_done_in_part_is_completed_by_doing_it_again(
    pair: Pair, proxy: CuttingProxy, name: str, part: float
) -> None:
    op = CASES_OF_SEVERAL[name](pair)
    warm(pair)
    if part < 1:
        proxy.cut(to_server=int(part * request_bytes(op)))
    else:
        proxy.cut(to_client=0)
    outcome = pair.run_alone(op, CUT)
    proxy.go_on()
    assert outcome[0] is StoreUnavailable, outcome

    pair.run_alone(op, CUT)

    pair.catch_up(op)
    pair.look(FEEDS, GROUPS, LISTS, WELL)


@pytest.mark.parametrize("cut_bytes", [150, 300])
def test_what_was_taken_unheard_comes_back(pair: Pair, proxy: CuttingProxy, cut_bytes: int) -> None:
    ids = {*_add(pair), *_add(pair, b"w")}
    op = Take(JOBS, LISTS, 6)
    warm(pair)
    proxy.cut(to_client=cut_bytes)
    outcome = pair.run_alone(op, CUT)
    proxy.go_on()
    assert outcome[0] in (StoreUnavailable, NotDone), outcome

    pair.advance(TERMS.retry_ms + JITTER_MS)

    given = pair.run_alone(op, CUT)
    assert {delivery.message_id for delivery in given} == ids


def test_a_store_that_cannot_be_reached_says_that_nothing_was_done(
    server: RedisServer, proxy: CuttingProxy
) -> None:
    pair = Pair([server.url, proxy.url], server, timeout_s=1.0)
    ids = _taken(pair)
    warm(pair)
    proxy.refuse()

    outcomes = [
        pair.run_alone(op, CUT) for op in (Finish(JOBS, ids), Add(JOBS, b"v", [b"4"], TERMS))
    ]

    # The first is perhaps sent before it is found out that nobody is there any more.
    assert [kind for kind, _ in outcomes] in ([NotDone, NotDone], [StoreUnavailable, NotDone])
    proxy.go_on()
    pair.look(FEEDS, GROUPS, LISTS, WELL)
    assert pair.run(Finish(JOBS, ids), CUT) == [True, True]
    pair.look(FEEDS, GROUPS, LISTS, WELL)
    pair.close()


def test_what_arrives_long_after_it_was_given_up_does_no_harm(
    server: RedisServer, proxy: CuttingProxy
) -> None:
    pair = Pair([server.url, proxy.url], server, timeout_s=1.0)
    finish, add = Finish(JOBS, _taken(pair)), Add(JOBS, b"w", [b"4"], TERMS)
    for op in (finish, add):
        warm(pair)
        proxy.stall()
        outcome = pair.run_alone(op, CUT)
        assert outcome[0] is StoreUnavailable, outcome
        sent_bytes, _ = proxy.carried_bytes

        proxy.go_on()  # from here on the first one may arrive
        pair.run_alone(op, CUT)

        proxy.drop()  # what had arrived is done by then
        assert proxy.carried_bytes[0] > sent_bytes
    left = pair.run_alone(ScanMessages(JOBS, 0, 1_000, with_bodies=True), WELL)[1]
    assert sorted(view.body for view in left) == [b"3", b"4", b"4"]
    assert {view.state for view in left} == {State.READY}
    pair.close()


# -- shared steps --------------------------------------------------------------------------------


def after(done: object, op: Op) -> Op:
    """The operation, once the other thing is done."""
    return op


def warm(pair: Pair) -> None:
    """The broker that is cut has a connection, and knows its own name."""
    pair.run_alone(LookAt(JOBS, b"v"), CUT)
    pair.run_alone(LookAtNode(), CUT)


def request_bytes(op: Op) -> int:
    """About how much is sent: the ids, and the rest of a call for each of two slots."""
    ids: list[bytes] = op.message_ids  # type: ignore[attr-defined]
    return sum(len(id) + 8 for id in ids) + 2 * 200


def bodies(pair: Pair) -> set[bytes]:
    views = pair.embedded.run(ScanMessages(JOBS, 0, 1_000, with_bodies=True))[1]
    return {view.message_id + view.body for view in views}
