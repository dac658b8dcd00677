"""Workers, cleaners and somebody who breaks things, all at once on a real Redis: each item is
completed once, and nothing is left over."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from quinque.workqueue import Item, KeyPrefix, WorkQueue
from tests.servers.patience import wait_until
from tests.workqueue.other_clients import NewGeneration
from tests.workqueue.stage import Picture, Place, abandon, sync_worker

ITEMS = 250
WORKERS = 3


class Scene:
    """What the threads share. It ends when every item has been completed, or somebody failed."""

    def __init__(self, place: Place, prefix: str) -> None:
        self.place = place
        self.prefix = prefix
        self.completed: Counter[str] = Counter()
        self.failures: list[BaseException] = []
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        return bool(self.failures) or len(self.completed) >= ITEMS

    def note(self, id: str) -> None:
        with self._lock:
            self.completed[id] += 1

    def run(self, act: Callable[[Any, random.Random], None], seed: int) -> None:
        """The act over and over, until the scene is over."""
        chance = random.Random(seed)
        db = self.place.open()
        try:
            while not self.is_over:
                act(db, chance)
        except BaseException as error:
            self.failures.append(error)
        finally:
            db.close()

    def work(self, db: Any, chance: random.Random) -> None:
        queue = WorkQueue(KeyPrefix(self.prefix))
        item = queue.lease(db, chance.choice([0.02, 0.1, 5]), timeout=0.02)
        if item is None or chance.random() < 0.15:
            return  # it dies, as far as this item is concerned
        assert item.data() == f"data of {item.id()}".encode()
        if queue.complete(db, item):
            self.note(item.id())
            assert not queue.complete(db, item)

    def work_as_the_others_do(self, db: Any, chance: random.Random) -> None:
        client = NewGeneration(db, self.prefix)
        item = client.lease(5)
        if item is not None and chance.random() > 0.15 and client.complete(item[0]):
            self.note(item[0])

    def clean(self, db: Any, chance: random.Random) -> None:
        queue = WorkQueue(KeyPrefix(self.prefix))
        if chance.random() < 0.7:
            queue.light_clean(db, grace_s=0.01)
        else:
            queue.deep_clean(db, grace_s=0.01)

    def damage(self, db: Any, chance: random.Random) -> None:
        prefix = self.prefix
        queue, processing = f"{prefix}:queue", f"{prefix}:processing"
        id = f"{chance.randrange(ITEMS)}"
        match chance.randrange(7):
            case 0:
                db.lrem(processing, 0, id)
            case 1:
                db.lrem(queue, 0, id)
            case 2:
                db.lpush(processing, id)
            case 3:
                db.lpush(queue, id)
            case 4:
                db.lpush(queue, f"ghost {id}")
            case 5:
                db.delete(f"{prefix}:lease:{id}", f"{prefix}:leased_by_session:{id}")
            case 6:
                db.lpush(f"{prefix}:cleaning", id)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_item_is_completed_once_whatever_happens(place: Place, prefix: str, seed: int) -> None:
    scene = Scene(place, prefix)
    worker = sync_worker(place.raw, prefix)
    for number in range(ITEMS):
        worker.add_item(Item(f"data of {number}", id=str(number)))
    acts = [*[scene.work] * WORKERS, scene.work_as_the_others_do, scene.clean, scene.damage]
    threads = [
        threading.Thread(target=scene.run, args=(act, 100 * seed + number))
        for number, act in enumerate(acts)
    ]

    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: scene.is_over, "every item has been completed")
    except AssertionError as error:
        scene.failures.append(error)
    for thread in threads:
        thread.join()

    assert scene.failures == []
    assert set(scene.completed.values()) == {1}
    assert set(scene.completed) == {str(number) for number in range(ITEMS)}
    abandon(place.raw, prefix)
    worker.deep_clean()
    assert Picture(place.raw, prefix).is_empty
