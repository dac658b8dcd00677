"""An id whose message is not there, because another program removed it or data was lost: it leaves
its queue and stops nothing that comes behind it, and the log of Redis says so.

Not here: items, whose keys other programs change every day (test_items.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from quinque.model.claim_ops import FillClaim
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Peek, Put, Release, Reserve
from quinque.model.tube_ops import LeaveSession, ReturnTasks
from quinque.model.work_ops import Take
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance import reliable_words, tube_words
from tests.conformance.tube_words import ANN, BEN, TUBE
from tests.conformance.work_words import add
from tests.redis.claim_words import S, read, subscribe
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer

MINUTE_MS: Final = 60_000
BODIES: Final = (b"1", b"2", b"3", b"4")
Q, G = b"q", b"g"


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_url, clock=ManualClock())) as opened:
        yield opened


Play = Callable[
    [RedisStore, Callable[[], None]], list[bytes]
]  # what is delivered, once some are lost


def jobs(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
    add(store, *BODIES)
    lose()
    return [it.body for it in store.run(Take(JOBS, [b"w"], 9))]


def elements(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
    reliable_words.push(store, *BODIES)
    lose()
    return reliable_words.popped(store, 9)


def events(store: RedisStore, lose: Callable[[], None], count: int = 9) -> list[bytes]:
    store.run(Put(EVENTS, Q, BODIES))
    lose()
    return reserved(store, count)


def reserved(store: RedisStore, count: int = 9) -> list[bytes]:
    return [it.body for it in store.run(Reserve(EVENTS, Q, G, MINUTE_MS, count))]


def events_one_by_one(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
    return events(store, lose, 1) + reserved(store, 1) + reserved(store, 1)


def events_again(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
    store.run(Put(EVENTS, Q, BODIES))
    given = store.run(Reserve(EVENTS, Q, G, MINUTE_MS, 9))
    store.run(Release(EVENTS, Q, G, [it.message_id for it in given]))
    lose()
    return reserved(store)


def peeked(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
    store.run(Put(EVENTS, Q, BODIES))
    lose()
    assert store.run(Peek(EVENTS, Q, G)).body == b"2"
    return reserved(store)


def events_claimed(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
    store.run(Put(EVENTS, Q, BODIES))
    lose()
    view = subscribe(store, EVENTS, Q, group=G)
    store.run(FillClaim(Q, S, view.epoch, 1, 9, seals=True))
    return [row.body for row in read(store, 1, queue=Q)]


def tasks(kind: bytes, **terms: Any) -> Play:
    def play(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
        tube_words.begin(store, kind)
        tube_words.put(store, *BODIES, **terms)
        lose()
        given = []
        while some := tube_words.take_views(store):
            given += [it.body for it in some]
            tube_words.ack(store, *(it.message_id for it in some))
        return given

    return play


def taken_tasks(back: Callable[[RedisStore], object]) -> Play:
    def play(store: RedisStore, lose: Callable[[], None]) -> list[bytes]:
        tube_words.begin(store, b"fifottl")
        tube_words.put(store, *BODIES)
        ids = tube_words.take(store, 9)
        if back is kick:
            tube_words.bury(store, *ids)
        lose()
        back(store)
        return [it.body for it in tube_words.take_views(store, 9, BEN)]

    return play


def kick(store: RedisStore) -> None:
    assert tube_words.kick(store, 4) == 2


def leave(store: RedisStore) -> None:
    store.run(LeaveSession(ANN))


def return_all(store: RedisStore) -> None:
    assert store.run(ReturnTasks(TUBE)) == 2


PLAYS: Final[dict[str, tuple[str, Play]]] = {  # with the key that has the messages
    "jobs": ("messages", jobs),
    "elements": ("messages", elements),
    "events": ("bodies:q", events),
    "events one by one": ("bodies:q", events_one_by_one),
    "events again": ("bodies:q", events_again),
    "events after a peek": ("bodies:q", peeked),
    "events of a claim": ("bodies:q", events_claimed),
    "tasks": ("tasks:t", tasks(b"fifo")),
    "tasks with times": ("tasks:t", tasks(b"fifottl", ttl_ms=MINUTE_MS)),
    "tasks of a lane": ("tasks:t", tasks(b"utube", lane=b"a")),
    "tasks of a lane with times": ("tasks:t", tasks(b"utubettl", lane=b"a", ttl_ms=MINUTE_MS)),
    "kicked tasks": ("tasks:t", taken_tasks(kick)),
    "tasks of a session that ends": ("tasks:t", taken_tasks(leave)),
    "returned tasks": ("tasks:t", taken_tasks(return_all)),
}


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_left_is_delivered_and_the_log_of_redis_tells_of_the_rest(
    store: RedisStore, redis_server: RedisServer, name: str
) -> None:
    kind, play = PLAYS[name]
    said = redis_server.log  # another thread reads it
    before = len(said)

    def lose() -> None:
        """The first message and the third are gone."""
        (key,) = redis_server.ask("KEYS", f"quinque:{{*}}:{kind}")
        ids = sorted(
            redis_server.ask("HKEYS", key), key=lambda id: redis_server.ask("HGET", key, id)[-1:]
        )
        redis_server.ask("HDEL", key, ids[0], ids[2])

    assert play(store, lose) == [b"2", b"4"]
    wait_until(lambda: any("without a message" in line for line in said[before:]), "Redis says so")
