"""Many bodies that were stored at once: each can be read back from the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque.errors import DiskFull
from quinque.model.events import STORED, Stored
from quinque.model.families import EVENTS
from quinque.model.ops import Put, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk, leave_room
from tests.store.picture import messages_of, picture_of

MANY = 65_540  # a few more than 16 bits can number


def test_every_event_of_a_large_request_is_delivered_from_the_disk(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder / "data", clock=clock, fsync="no", maxmemory=1)

    ids = store.run(Put(EVENTS, b"q", [b"%d" % number for number in range(MANY)]))
    store.commit()

    given = store.run(Reserve(EVENTS, b"q", b"g", 60_000, MANY))
    assert [it.message_id for it in given] == ids
    assert [it.body for it in given] == [b"%d" % number for number in range(MANY)]
    store.close()


def test_every_body_of_a_large_record_is_found(folder: Path, clock: ManualClock) -> None:
    """A journal may hold records that are larger than those that are written today."""
    store = EmbeddedStore(folder / "data", clock=clock, fsync="no")
    bodies = [b"%d" % number for number in range(MANY)]
    store.journal.append(
        Stored(STORED, b"q", EVENTS.code, clock.now_us(), 0, False, None, None, bodies)
    )
    store.close()

    store = EmbeddedStore(folder / "data", clock=clock, fsync="no", maxmemory=1)

    assert store.bodies.on_disk >= MANY - 1
    given = store.run(Reserve(EVENTS, b"q", b"g", 60_000, MANY))
    assert [it.body for it in given] == bodies
    store.close()


def test_a_large_request_is_stored_wholly_or_not_at_all(
    folder: Path, clock: ManualClock, disk: Disk
) -> None:
    store = EmbeddedStore(folder / "data", clock=clock, fsync="no")
    bodies = [b"%d" % number * 50 for number in range(600)]
    refusals = 0
    for room_bytes in range(SPARE_BYTES, SPARE_BYTES + 300_000, 10_000):
        leave_room(store, disk, room_bytes)
        before = picture_of(store)
        try:
            store.run(Put(EVENTS, b"q", bodies))
            break
        except DiskFull:
            refusals += 1
            assert picture_of(store) == before
    else:
        pytest.fail("there was room in the end")

    assert refusals > 1
    assert messages_of(store) == {b"q": bodies}
    disk.heal()
    store.close()
