"""What was committed is there after a crash, whatever was compacted; and the record tells it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from examples.drivers.unique.quinque_unique import Unique
from quinque.drivers import READY, STATE, Driver
from quinque.errors import DriverFailed
from quinque.model.tube_ops import PeekTasks, ReleaseTasks, ReturnTasks, TruncateTube
from quinque.stores.embedded import compact
from quinque.stores.embedded.compact import Compactor
from tests.drivers.odd_drivers import Clumsy, Timed
from tests.drivers.workshop import ME, TUBE, YOU, Task, Workshop
from tests.store.picture import check_indexes
from tests.store.record_model import check_record

WORDS = ("put", "take", "ack", "release", "bury", "delete", "kick", "time", "return", "truncate")
WEIGHTS = (40, 25, 12, 8, 4, 3, 3, 10, 2, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("driver", [Timed, Unique, Clumsy])
def test_a_crash_leaves_what_was_committed(
    workshop: Callable[..., Workshop],
    monkeypatch: pytest.MonkeyPatch,
    driver: Any,
    seed: int,
) -> None:
    monkeypatch.setattr(compact, "STEP_BYTES", 200)
    monkeypatch.setattr(Compactor, "_is_worth_it", lambda self: len(self._journal.sizes) > 1)
    random = Random(seed)
    shop = workshop({"quiet": 0.01}, driver=driver)
    shop.reopen(segment_bytes=500)
    for round in range(12):
        for _ in range(random.randrange(25)):
            _do_something(shop, random)
            if random.random() < 0.5:
                shop.store.commit()
        shop.store.commit()
        check_indexes(shop.store)
        before = shop.all()
        assert _after_a_crash(shop) == before
        if round % 4 == 3:
            shop.reopen(segment_bytes=500)
            assert shop.all() == before
            check_record(shop.store)
    assert min(shop.store.journal.sizes) > 1, "nothing was compacted"


class Trail(Driver):
    """A driver that keeps the trail of a task in a list, and changes that in place."""

    def put(self, data: Any, options: Any) -> Any:
        task = self.space.insert((self.space.next_id(), READY, data, ["put"]))
        self.on_task_change(task, "put")
        return task

    def release(self, id: int, options: Any) -> Any:
        row = self.space.get(id)
        assert row is not None
        trail = row[3]
        trail.append("released")
        task = self.space.update(id, {STATE: READY, 3: trail})
        self.on_task_change(task, "release")
        return task


def test_a_list_that_a_driver_changes_in_place_is_kept(
    workshop: Callable[..., Workshop],
) -> None:
    shop = workshop(driver=Trail)
    shop.put(b"x")
    shop.take_all(1)
    shop.store.run(ReleaseTasks(TUBE, ME, [b"0"]))
    shop.store.commit()

    shop.reopen()

    shop.store.run(PeekTasks(TUBE, [b"0"]))
    (row,) = shop.store._drivers._seats[TUBE].space.select("id")
    assert row[3] == ["put", "released"]


def _do_something(shop: Workshop, random: Random) -> None:
    word = random.choices(WORDS, WEIGHTS)[0]
    id = random.randrange(60)
    session = random.choice((ME, YOU))
    if word == "put":
        options: dict[str, Any] = {"key": random.randrange(9)}
        if random.random() < 0.3:
            options["delay" if random.random() < 0.5 else "ttl"] = random.choice((0.01, 0.05, 3))
        data = random.choice((b"x" * random.randrange(200), b"raise", b"no state"))
        try:
            shop.put(data, **options)
        except DriverFailed:
            assert shop.drivers["driver"] is Clumsy
    elif word == "take":
        shop.take_all(random.randrange(1, 4), session)
    elif word in ("ack", "release"):
        getattr(shop, word)(id, session)
    elif word in ("bury", "delete"):
        getattr(shop, word)(id)
    elif word == "kick":
        shop.kick(random.randrange(4))
    elif word == "time":
        shop.pass_time(random.choice((1, 20, 1500)))
    elif word == "return":
        shop.store.run(ReturnTasks(TUBE))
    else:
        shop.store.run(TruncateTube(TUBE))


def _after_a_crash(shop: Workshop) -> list[Task]:
    """What a store finds in the folder as it is."""
    copy = shop.folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(shop.folder, copy, ignore=shutil.ignore_patterns("lock"))
    other = Workshop.__new__(Workshop)
    other.folder, other.clock, other.drivers = copy, shop.clock, shop.drivers
    store = other.open()
    found = other.all()
    check_indexes(store)
    check_record(store)
    store.close()
    return found
