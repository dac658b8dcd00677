"""How much is done for one task does not depend on how many others there are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.tube_words import ALL, ANN, BEN, ack, begin, put, put_one, release, take
from tests.servers.steps import lines_run
from tests.store.picture import check_indexes

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


def wide_round_of(store: EmbeddedStore, queue: bytes, count: int) -> list[int]:
    """What it costs to put one more into a lane of `count` tasks that may all be taken, to take
    one, to give it back, and to take it again and end it."""
    begin(store, b"utube", queue, width=1_000_000)
    put(store, *[b""] * count, queue=queue, lane=b"a")
    return [
        lines_run(lambda: put(store, b"", queue=queue, lane=b"a")),
        lines_run(lambda: take(store, queue=queue)),
        lines_run(lambda: release(store, b"0", session=ANN, queue=queue)),
        lines_run(lambda: take(store, queue=queue, lane=b"a")),
        lines_run(lambda: ack(store, b"0", session=ANN, queue=queue)),
    ]


def test_a_wide_lane_costs_nothing(store: EmbeddedStore) -> None:
    few, many = wide_round_of(store, b"few", 50), wide_round_of(store, b"many", 1_000)

    assert all(of_many <= of_few + 200 for of_few, of_many in zip(few, many, strict=True)), (
        few,
        many,
    )


def test_the_start_of_a_store_with_a_wide_lane_goes_through_its_tasks_once(tmp_path: Path) -> None:
    count = 1_000
    with closing(EmbeddedStore(tmp_path / "wide", clock=ManualClock(), fsync="no")) as store:
        begin(store, b"utube", width=1_000_000)
        put(store, *[b""] * count, lane=b"a")
        taken = take(store, count // 2)
        release(store, *taken[::2])
    opened: list[EmbeddedStore] = []

    lines = lines_run(lambda: opened.append(EmbeddedStore(tmp_path / "wide", fsync="no")))

    with closing(opened[0]) as store:
        check_indexes(store)
        assert lines < 400 * count
