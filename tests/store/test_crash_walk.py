"""Random work of all families, killed at every call of the file system, loses and swaps nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from quinque.engine.work.worklist import LEASED, READY
from quinque.errors import QuinqueError
from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.tube_ops import KickTasks, ReturnTasks
from quinque.model.work_ops import Add, Purge, PurgeAll, Terms
from quinque.stores.embedded.store import EmbeddedStore
from tests.model.effort import EFFORT
from tests.store.crash_walk import ClosingWalk, FullDiskWalk, Walk
from tests.store.picture import picture_of, picture_of_claims

TURNS = 150


def look_of(store: EmbeddedStore) -> object:
    """All that the store knows."""
    return picture_of(store), picture_of_claims(store)


def settled_look_of(store: EmbeddedStore) -> object:
    """All but places, times, orders and counts: they depend on when the store noticed the time."""
    queues = {name: _SETTLED[it[0]](it) for name, it in picture_of(store).items()}
    return queues, picture_of_claims(store)


def _settled_feed(picture: Any) -> object:
    family, messages, groups = picture
    held = {name: (sorted(it[0]), it[1], it[2]) for name, it in groups.items()}
    return family, messages, held


def _settled_worklist(picture: Any) -> object:
    family, messages, _, settings, _ = picture
    rows = [(id, body, terms, state, *rest) for id, body, _, _, terms, state, _, *rest in messages]
    return family, sorted(rows, key=lambda row: row[0]), settings


def _settled_tube(picture: Any) -> object:
    """Tasks that a session holds are ready: after a restart it may be gone."""
    family, messages, *settings = picture
    rows = [
        (id, body, lane, READY if state == LEASED else state)
        for id, body, _, _, lane, state, *_ in messages
    ]
    return family, sorted(rows, key=lambda row: row[0]), settings


_SETTLED: Final[dict[str, Callable[[Any], object]]] = {
    "events": _settled_feed,
    "jobs": _settled_worklist,
    "reliable": _settled_worklist,
    "items": _settled_worklist,
    "tubes": _settled_tube,
}


@pytest.mark.usefixtures("compaction_pauses_often")
@pytest.mark.parametrize("seed", range(5, 5 + max(1, EFFORT)))
def test_killed_at_any_call_of_the_file_system_a_store_is_as_it_was_committed(
    folder: Path, seed: int
) -> None:
    walk = Walk(folder, seed, look_of)

    walk.go(TURNS)

    assert walk.copies > TURNS
    assert walk.dropped > 5


@pytest.mark.usefixtures("compaction_pauses_often", "one_chunk_in_a_step")
@pytest.mark.parametrize("seed", range(20, 20 + max(1, EFFORT)))
def test_killed_in_the_middle_of_closing_claims_a_store_is_as_it_was_committed(
    folder: Path, seed: int
) -> None:
    walk = ClosingWalk(folder, seed, look_of)

    walk.go(TURNS // 2)

    assert walk.is_closing > TURNS // 20
    assert walk.dropped > 5


@pytest.mark.usefixtures("compaction_pauses_often")
@pytest.mark.parametrize("seed", range(max(1, EFFORT)))
def test_killed_on_a_full_disk_a_store_is_as_it_was_committed(folder: Path, seed: int) -> None:
    walk = FullDiskWalk(folder, seed, settled_look_of)

    walk.go(TURNS)

    assert walk.copies > TURNS // 2


@pytest.mark.usefixtures("compaction_pauses_often", "queues_are_emptied_slowly")
@pytest.mark.parametrize("seed", range(20, 20 + max(1, EFFORT)))
def test_killed_while_queues_are_being_emptied_a_store_is_as_it_was_committed(
    folder: Path, seed: int
) -> None:
    walk = Walk(folder, seed, look_of)

    walk.go(TURNS)

    assert walk.copies > TURNS
    assert walk.emptied > 10


class SlicedWalk(Walk):
    """Jobs are purged and tasks released and kicked, one with each turn."""

    sliced = 0  # turns that began in the middle of such a request

    def before_turn(self) -> None:
        self.sliced += self.store.sliced.is_working
        jobs = [it.name for it in self.store.queues.values() if it.family is JOBS]
        tubes = list(self.store.tubes)
        choice = self._random.choice
        if jobs and self._random.random() < 0.3:
            name = choice(jobs)
            with suppress(QuinqueError):  # the node may be leaving, or the queue be paused
                self.store.run(Add(JOBS, name, [b"x"] * 8, Terms(60_000, 0, 60_000)))
            self.store.run(choice((Purge(JOBS, name, list(State)), PurgeAll(JOBS))))
        if tubes and self._random.random() < 0.3:
            self.store.run(choice((ReturnTasks(choice(tubes)), KickTasks(choice(tubes), 5))))


@pytest.mark.usefixtures("compaction_pauses_often", "requests_are_sliced")
@pytest.mark.parametrize("seed", range(40, 40 + max(1, EFFORT)))
def test_killed_in_the_middle_of_a_request_a_store_is_as_it_was_committed(
    folder: Path, seed: int
) -> None:
    walk = SlicedWalk(folder, seed, look_of)

    walk.go(TURNS)

    assert walk.copies > TURNS
    assert walk.sliced > 2
