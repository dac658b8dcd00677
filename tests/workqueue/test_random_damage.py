"""Keys that are damaged at random are what a model of ten lines says once they are cleaned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.workqueue.stage import Picture, Place, clean_in_tiny_slices, sync_worker

IDS = "abcdefgh"
ids = some.sampled_from(IDS)
lists = some.lists(ids, max_size=16)


@dataclass
class Damage:
    """Whatever may be in the keys of a queue."""

    items: set[str] = field(default_factory=set)
    new_leases: set[str] = field(default_factory=set)
    old_leases: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)
    processing: list[str] = field(default_factory=list)
    cleaning: list[str] = field(default_factory=list)

    @property
    def held(self) -> set[str]:
        return self.items & (self.new_leases | self.old_leases)

    def write(self, raw: Any, prefix: str) -> None:
        raw.delete(*raw.keys("*") or ["-"])
        for id in self.items:
            raw.set(f"{prefix}:item:{id}", f"data of {id}")
        for kind, leased in (("lease", self.new_leases), ("leased_by_session", self.old_leases)):
            for id in leased:
                raw.set(f"{prefix}:{kind}:{id}", "somebody", ex=600)
        for name in ("queue", "processing", "cleaning"):
            content = self.waiting if name == "queue" else getattr(self, name)
            if content:
                raw.rpush(f"{prefix}:{name}", *content)


damages = some.builds(
    Damage,
    items=some.sets(ids),
    new_leases=some.sets(ids, max_size=4),
    old_leases=some.sets(ids, max_size=4),
    waiting=lists,
    processing=lists,
    cleaning=some.lists(ids, max_size=3),
)
# The keys of an example are gone before the next; the server is the same.
patient = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=["usual slices", "tiny slices"], autouse=True)
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "tiny slices":
        clean_in_tiny_slices(monkeypatch)


@patient
@given(damage=damages)
def test_deep_cleaning_makes_every_item_held_or_waiting_once(place: Place, damage: Damage) -> None:
    prefix = "p[*"
    damage.write(place.raw, prefix)
    worker = sync_worker(place.raw, prefix)
    told = worker.deep_clean(dry_run=True)

    counts = worker.deep_clean()

    picture = Picture(place.raw, prefix)
    assert picture.items == damage.items
    assert set(picture.waiting) >= damage.items - damage.held
    assert set(picture.waiting) <= damage.items
    assert len(picture.waiting) == len(set(picture.waiting))
    assert set(picture.processing) <= damage.held
    assert not set(picture.processing) & set(picture.waiting)
    assert counts.looked == len(damage.items)
    assert counts.returned == told.returned
    assert worker.deep_clean().repaired == 0
    # Of those that waited and were nobody's, each keeps the place where it waited longest.
    before = [id for id in _last_of_each(damage.waiting) if id in damage.items - damage.held]
    assert [id for id in picture.waiting if id in before] == before
    # All are run, once.
    run = []
    while (item := worker.lease()) is not None:
        run.append(item.id())
    assert sorted(run) == sorted(damage.items - damage.held)


@patient
@given(damage=damages)
def test_light_cleaning_returns_what_was_handed_out_and_is_nobodys(
    place: Place, damage: Damage
) -> None:
    prefix = "p[*"
    damage.write(place.raw, prefix)
    worker = sync_worker(place.raw, prefix)

    worker.light_clean()

    picture = Picture(place.raw, prefix)
    handed_out = set(damage.processing) | set(damage.cleaning)
    unheld = damage.items - damage.held
    assert set(picture.waiting) == set(damage.waiting) | (handed_out & unheld)
    assert picture.waiting[len(picture.waiting) - len(damage.waiting) :] == damage.waiting
    assert set(picture.processing) == set(damage.processing) & damage.held
    assert set(picture.cleaning) <= damage.held
    assert picture.items == damage.items
    added = picture.waiting[: len(picture.waiting) - len(damage.waiting)]
    assert len(added) == len(set(added))


def _last_of_each(ids: list[str]) -> list[str]:
    return [id for at, id in enumerate(ids) if id not in ids[at + 1 :]]
