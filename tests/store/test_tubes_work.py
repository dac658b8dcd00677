"""How much is done for one task does not depend on how many others there are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.tube_words import ALL, ANN, BEN, ack, begin, put, put_one, release, take

FEW, MANY = 100, 100_000
TOGETHER = 10_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(tmp_path / "data", clock=ManualClock(), fsync="no")
    yield opened
    opened.close()


def calls_of(act: Callable[[], object]) -> int:
    """How many functions are called in it, those of Python itself too."""
    count = 0

    def see(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def fill(store: EmbeddedStore, queue: bytes, kind: bytes, count: int) -> None:
    """So many tasks in a lane that is busy, and one in a lane that is free."""
    begin(store, kind, queue)
    for _ in range(0, count, TOGETHER):
        put(store, *[b""] * min(TOGETHER, count), queue=queue, lane=b"busy")
    take(store, queue=queue)
    put_one(store, queue=queue, lane=b"free")
    store.commit()


def round_of(store: EmbeddedStore, queue: bytes) -> list[int]:
    """What it costs to take the one that is free and to give it back, to look in vain, to free the
    lane and to take its next task, and to put one more into it."""
    given: list[bytes] = []
    return [
        calls_of(lambda: given.extend(take(store, 1, BEN, queue=queue))),
        calls_of(lambda: take(store, ALL, BEN, queue=queue)),
        calls_of(lambda: release(store, *given, session=BEN, queue=queue)),
        calls_of(lambda: take(store, ALL, BEN, queue=queue, lane=b"busy")),
        calls_of(lambda: ack(store, b"0", session=ANN, queue=queue)),
        calls_of(lambda: take(store, 1, queue=queue, lane=b"busy")),
        calls_of(lambda: put(store, b"x", queue=queue, lane=b"busy")),
    ]


@pytest.mark.parametrize("kind", [b"utube", b"utubettl"])
def test_a_long_busy_lane_costs_nothing(store: EmbeddedStore, kind: bytes) -> None:
    fill(store, b"few", kind, FEW)
    fill(store, b"many", kind, MANY)

    few, many = round_of(store, b"few"), round_of(store, b"many")

    # A task's place is found in steps, of which there are a few more among many.
    assert all(of_many <= of_few + 20 for of_few, of_many in zip(few, many, strict=True)), (
        few,
        many,
    )
