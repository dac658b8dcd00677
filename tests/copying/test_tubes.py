"""Tubes in a copy: every kind, every state, and who has taken what."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quinque.errors import CopyRefused
from quinque.model.families import TUBES
from quinque.model.tube_events import TUBE_KEPT, TubeKept
from quinque.model.tube_ops import KINDS
from quinque.stores.clock import ManualClock
from quinque.stores.portable import Chunk, Facts
from tests.conformance.tube_words import (
    ANN,
    BEN,
    BURIED,
    DELAYED,
    GONE,
    READY,
    TAKEN,
    ack,
    bury,
    counts,
    join,
    look,
    make,
    put,
    release,
    states,
    take,
    touch,
    tubes,
)
from tests.copying.places import FolderPlace, Place, RedisPlace, copy
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

SETTINGS: dict[str, Any] = {"ttl_ms": 60_000, "ttr_ms": 5_000, "capacity": 9, "width": 2, "pri": 7}
IDS = [b"%d" % number for number in range(8)]


def fill(place: Place, clock: ManualClock) -> None:
    with closing(place.open(clock)) as store:
        for session in (ANN, BEN):
            join(store, session, is_new=True)
        for kind in KINDS:
            make(store, kind, kind, **SETTINGS)
            put(store, *[b"x" * 400 * number for number in range(6)], queue=kind, lane=b"a lane\0")
            put(store, b"later", b"soon", queue=kind, lane=b"", delay_ms=4_000, pri=1)
            take(store, 2, ANN, queue=kind)
            clock.advance(1)
            ack(store, b"0", queue=kind)
            take(store, 1, BEN, queue=kind)
            release(store, b"1", queue=kind, delay_ms=2_000)
            bury(store, b"4", queue=kind)
        make(store, b"fifo", b"temporary", is_temporary=True)
        store.commit()


def check(place: Place, now_us: int) -> None:
    """It is as fill() left it, and goes on."""
    clock = ManualClock(now_us)
    with closing(place.open(clock)) as store:
        assert tubes(store) == [*KINDS, b"temporary"]
        join(store, BEN, is_new=True)
        for kind, row in KINDS.items():
            settings = look(store, kind).settings
            assert all(getattr(settings, name) == value for name, value in SETTINGS.items())
            back = DELAYED if row.has_times else READY
            later = [DELAYED] * 2 if row.has_times else [READY] * 2
            assert states(store, *IDS, queue=kind) == [
                *(GONE, back, TAKEN, READY, BURIED, READY),
                *later,
            ]
            assert ack(store, b"2", queue=kind) == [None], "it is not Ann's"
            if row.has_times:
                touched = touch(store, b"2", by_ms=1_000, queue=kind, session=BEN)
                assert touched == [(b"2", TAKEN)]
            else:
                assert ack(store, b"2", queue=kind, session=BEN) == [(b"2", GONE)]
            assert put(store, b"x", queue=kind) == [b"8"]
        timed = [kind for kind, row in KINDS.items() if row.has_times]
        clock.advance(4_000)
        for kind in timed:
            assert states(store, b"1", b"2", b"6", queue=kind) == [READY, TAKEN, READY]
        clock.advance(2_000)
        for kind in timed:
            assert states(store, b"2", queue=kind) == [READY]
        assert counts(store, b"temporary") == (0, 0, 0, 0, 0)
        store.commit()


@pytest.mark.parametrize("kind", ["redis_server", "redis_cluster"])
def test_tubes_are_the_same_there_and_back(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    server: RedisServer | RedisCluster = request.getfixturevalue(kind)
    server.flush()
    first, there, back = (
        FolderPlace(tmp_path / "a"),
        RedisPlace(server.url),
        FolderPlace(tmp_path / "b"),
    )
    clock = ManualClock()
    fill(first, clock)

    assert copy(first, there) == copy(there, back)

    for place in (first, there, back):
        check(place, clock.now_us())


def test_tubes_come_out_of_redis(redis_url: str, tmp_path: Path) -> None:
    there, folder = RedisPlace(redis_url), FolderPlace(tmp_path / "a")
    clock = ManualClock()
    fill(there, clock)

    copy(there, folder)

    check(folder, clock.now_us())


def test_a_tube_of_a_driver_cannot_go_to_redis(redis_url: str) -> None:
    settings = (0, 0, 0, 0, 1, False, b"")
    tube = TubeKept(TUBE_KEPT, b"t", TUBES.code, b"mine", 1, 1, 0, settings)
    with closing(RedisPlace(redis_url).writer()) as writer:
        writer.begin("elsewhere", Facts(1, 1, b"", False), [b"t"])

        with pytest.raises(CopyRefused, match="tube t has the driver mine: drivers"):
            writer.write(Chunk(b"t", [tube], 0))
