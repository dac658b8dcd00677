"""With the cycle collector off, as in a broker, nothing that is done is kept for ever."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from quinque.errors import QuinqueError
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Ack, Op, Put, Reserve
from quinque.model.work_ops import Add, Extend, Finish, Take, Terms
from quinque.stores.redis.store import RedisStore

NOBODY = b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"
ROUNDS = 200
DONE: list[Op] = [
    Put(EVENTS, b"e", [b"1"]),
    Reserve(EVENTS, b"e", b"g", lease_ms=1_000),
    Ack(EVENTS, b"e", b"g", [b"1"]),
    Add(JOBS, b"w", [b"1"], Terms(60_000)),
    Take(JOBS, [b"w"]),
    Take(JOBS, [b"w", b"v", b"u"], 3),
    Finish(JOBS, [NOBODY]),
]
REFUSED: list[Op] = [
    Put(JOBS, b"w", [b"1"]),
    Extend(JOBS, NOBODY),
    Add(JOBS, b"w", [b"1"], Terms(60_000), max_length=1),
    Add(JOBS, b"w", [b"1"], Terms(60_000, replicas=9)),
]


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    opened = RedisStore(redis_url)
    opened.run(Add(JOBS, b"w", [b"1"] * 1_000, Terms(60_000)))
    yield opened
    opened.close()


@pytest.mark.parametrize("op", DONE + REFUSED, ids=lambda op: type(op).__name__)
def test_nothing_is_left_behind(store: RedisStore, op: Op) -> None:
    _run(store, op)
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            _run(store, op)
        assert gc.collect() < ROUNDS
    finally:
        gc.enable()


def _run(store: RedisStore, op: Op) -> None:
    try:
        store.run(op)
    except QuinqueError:
        assert op in REFUSED
