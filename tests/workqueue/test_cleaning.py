"""Cleaning: which damage becomes what, for both kinds of WorkQueue."""

from __future__ import annotations

import pytest

from quinque.workqueue import CleanCounts, Item, KeyPrefix, Progress
from quinque.workqueue.cleaning import Cleaner
from quinque.workqueue.keys import Keys
from quinque.workqueue.scripts import SCRIPTS
from quinque.workqueue.steps import Call, Pause
from tests.workqueue.stage import Picture, Place, Worker, abandon, clean_in_tiny_slices


@pytest.fixture
def _tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_in_tiny_slices(monkeypatch)


def add(worker: Worker, *ids: str) -> None:
    for id in ids:
        worker.add_unique_item(Item(f"data of {id}", id=id))


def drain(worker: Worker) -> list[str]:
    """The items that wait, leased and completed."""
    done = []
    while item := worker.lease():
        assert item.data() == f"data of {item.id()}".encode()
        assert worker.complete(item)
        done.append(item.id())
    return done


def test_an_abandoned_item_waits_again_behind_the_others(
    worker: Worker, place: Place, prefix: str, on_cluster: None
) -> None:
    add(worker, "a", "b", "c", "d")
    worker.lease()
    worker.lease()
    abandon(place.raw, prefix)
    held = worker.lease()

    counts = worker.light_clean()

    assert counts == CleanCounts(looked=3, returned=2)
    assert Picture(place.raw, prefix).waiting == ["b", "a", "d"]
    assert Picture(place.raw, prefix).processing == ["c"]
    assert held is not None
    assert worker.light_clean() == CleanCounts(looked=1)
    assert drain(worker) == ["d", "a", "b"]


@pytest.mark.parametrize("kind", ["lease", "leased_by_session"])
@pytest.mark.parametrize("way", ["light_clean", "deep_clean"])
def test_a_lease_of_either_generation_keeps_an_item_where_it_is(
    worker: Worker, place: Place, prefix: str, kind: str, way: str
) -> None:
    add(worker, "a")
    worker.lease()
    abandon(place.raw, prefix)
    place.raw.set(f"{prefix}:{kind}:a", "another", ex=60)

    counts: CleanCounts = getattr(worker, way)()

    assert counts == CleanCounts(looked=1)
    assert Picture(place.raw, prefix).processing == ["a"]


# What is wrong; how many of `looked`, `returned`, `ghosts` and `duplicates` a deep cleaning counts;
# then what waits and what is being processed. The items a, b and c exist; c is held.
DAMAGE = {
    "nothing": ([], (3, 0, 0, 0), ["b", "a"], ["c"]),
    "in no list": ([("lrem", "queue", "a")], (3, 1, 0, 0), ["a", "b"], ["c"]),
    "held and in no list": ([("lrem", "processing", "c")], (3, 0, 0, 0), ["b", "a"], []),
    "in the queue twice": ([("lpush", "queue", "a")], (3, 0, 0, 1), ["b", "a"], ["c"]),
    "in the queue three times": (
        [("lpush", "queue", "a"), ("rpush", "queue", "a")],
        *((3, 0, 0, 2), ["b", "a"], ["c"]),
    ),
    "in both lists": ([("lpush", "processing", "a")], (3, 0, 0, 1), ["b", "a"], ["c"]),
    "held and in both": ([("lpush", "queue", "c")], (3, 0, 0, 1), ["b", "a"], ["c"]),
    "processed twice": (
        [("lrem", "queue", "a"), ("lpush", "processing", "a"), ("rpush", "processing", "a")],
        *((3, 1, 0, 1), ["a", "b"], ["c"]),
    ),
    "an id without data waits": ([("lpush", "queue", "x")], (3, 0, 1, 0), ["b", "a"], ["c"]),
    "an id without data waits twice": (
        [("lpush", "queue", "x"), ("rpush", "queue", "x")],
        *((3, 0, 2, 0), ["b", "a"], ["c"]),
    ),
    "an id without data is processed": (
        [("lpush", "processing", "x")],
        *((3, 0, 1, 0), ["b", "a"], ["c"]),
    ),
    "an id without data is processed and leased": (
        [("lpush", "processing", "x"), ("lease", "", "x")],
        *((3, 0, 1, 0), ["b", "a"], ["c"]),
    ),
    "an old cleaner died": (
        [("lrem", "queue", "a"), ("lpush", "cleaning", "a")],
        *((3, 1, 0, 0), ["a", "b"], ["c"]),
    ),
    "an old cleaner died at its end": (
        [("lpush", "cleaning", "a")],
        (3, 0, 0, 0),
        ["b", "a"],
        ["c"],
    ),
    "an old cleaner had a completed one": (
        [("lpush", "cleaning", "x")],
        (3, 0, 0, 0),
        ["b", "a"],
        ["c"],
    ),
}

LIGHT_IS_ENOUGH = [
    name
    for name, (steps, *_) in DAMAGE.items()
    if any(where in ("processing", "cleaning") for how, where, _ in steps if how != "lrem")
]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("way", ["deep_clean", "deep_clean_in_slices"])
def test_what_damage_becomes(
    worker: Worker, place: Place, prefix: str, damage: str, way: str
) -> None:
    steps, counts, waiting, processing = DAMAGE[damage]
    add(worker, "c", "a", "b")
    worker.lease()
    for how, where, id in steps:
        do_damage(place, prefix, how, where, id)
    dry = worker.deep_clean(dry_run=True)
    assert dry == CleanCounts(*counts)

    assert getattr(worker, way)() == CleanCounts(*counts)

    picture = Picture(place.raw, prefix)
    assert (picture.waiting, picture.processing) == (waiting, processing)
    assert (picture.items, picture.leases, picture.cleaning) == ({"a", "b", "c"}, {"c"}, [])
    assert worker.deep_clean().repaired == 0


def do_damage(place: Place, prefix: str, how: str, where: str, id: str) -> None:
    if how == "lease":
        place.raw.set(f"{prefix}:lease:{id}", "stray", ex=60)
    elif how == "lrem":
        place.raw.lrem(f"{prefix}:{where}", 0, id)
    else:
        getattr(place.raw, how)(f"{prefix}:{where}", id)


@pytest.mark.parametrize("damage", LIGHT_IS_ENOUGH)
def test_light_cleaning_obeys_the_whole_rule_too(
    worker: Worker, place: Place, prefix: str, damage: str
) -> None:
    steps, counts, waiting, processing = DAMAGE[damage]
    add(worker, "c", "a", "b")
    worker.lease()
    for how, where, id in steps:
        do_damage(place, prefix, how, where, id)
    assert worker.light_clean(dry_run=True).repaired == sum(counts[1:])

    done = worker.light_clean()

    assert (done.returned, done.ghosts, done.duplicates) == counts[1:]
    picture = Picture(place.raw, prefix)
    assert (picture.waiting, picture.processing) == (waiting, processing)
    assert picture.cleaning == []


def test_a_dry_run_changes_nothing(worker: Worker, place: Place, prefix: str) -> None:
    add(worker, "a", "b")
    worker.lease()
    abandon(place.raw, prefix)
    place.raw.lpush(f"{prefix}:queue", "ghost", "b")
    before = vars(Picture(place.raw, prefix))

    assert worker.light_clean(dry_run=True).returned == 1
    assert worker.deep_clean(dry_run=True) == CleanCounts(2, returned=1, ghosts=1, duplicates=1)

    assert vars(Picture(place.raw, prefix)) == before


def test_another_queue_whose_name_the_prefix_matches_as_a_pattern_is_let_be(
    worker: Worker, place: Place, prefix: str
) -> None:
    other = prefix.replace("*?", "zz")
    place.raw.set(f"{other}:item:lost", "x")

    assert worker.deep_clean().repaired == 0

    assert Picture(place.raw, other).waiting == []
    place.raw.delete(f"{other}:item:lost")


@pytest.mark.usefixtures("_tiny_slices")
def test_many_slices_come_to_the_same(
    worker: Worker, place: Place, prefix: str, on_cluster: None
) -> None:
    ids = [f"{number:03}" for number in range(300)]
    add(worker, *ids)
    for _ in range(60):
        worker.lease()
    abandon(place.raw, prefix)
    raw = place.raw
    raw.lpush(f"{prefix}:queue", *(f"ghost{number}" for number in range(30)), "070", "290", "100")
    raw.lrem(f"{prefix}:queue", 0, "150")
    raw.lrem(f"{prefix}:processing", 0, "010")
    told: list[Progress] = []

    counts = worker.deep_clean(told.append)

    assert counts == CleanCounts(looked=300, returned=61, ghosts=30, duplicates=3)
    picture = Picture(raw, prefix)
    assert sorted(picture.waiting) == ids
    assert picture.processing == []
    assert {step.phase for step in told} == {
        *("waiting", "processing", "leases", "items", "returning", "dropping")
    }
    assert all(0 <= step.done <= step.total for step in told)
    assert drain(worker)[:3] == ["060", "061", "062"]


@pytest.mark.usefixtures("_tiny_slices")
def test_a_queue_that_changes_while_it_is_read_is_read_again(
    worker: Worker, place: Place, prefix: str
) -> None:
    """What waits is read first, and more than a script looks at comes before the end."""
    add(worker, *(f"{number:03}" for number in range(50)))
    add_many(place, prefix, "lost", 3, waits=False)

    def disturb(step: Progress) -> None:
        if step.phase == "items" and not is_disturbed:
            is_disturbed.append(True)
            # Somebody found one of the lost items; then many others came.
            place.raw.lpush(f"{prefix}:queue", "lost1")
            add_many(place, prefix, "more", 2100)

    is_disturbed: list[bool] = []
    counts = worker.deep_clean(disturb)

    assert counts.returned == 2
    waiting = Picture(place.raw, prefix).waiting
    assert len(waiting) == len(set(waiting)) == 50 + 3 + 2100


@pytest.mark.usefixtures("_tiny_slices")
def test_what_somebody_else_puts_back_between_two_slices_is_not_put_back_again(
    worker: Worker, place: Place, prefix: str
) -> None:
    add_many(place, prefix, "lost", 8, waits=False)
    told: list[Progress] = []

    def disturb(step: Progress) -> None:
        if step.phase == "returning" and step not in told:
            told.append(step)
            waiting = Picture(place.raw, prefix).waiting
            missing = [id for number in range(8) if (id := f"lost{number}") not in waiting]
            if missing:
                place.raw.lpush(f"{prefix}:queue", missing[-1])

    worker.deep_clean(disturb)

    waiting = Picture(place.raw, prefix).waiting
    assert len(told) > 2
    assert sorted(waiting) == [f"lost{number}" for number in range(8)]


def add_many(place: Place, prefix: str, name: str, count: int, waits: bool = True) -> None:
    ids = [f"{name}{number}" for number in range(count)]
    place.raw.mset({f"{prefix}:item:{id}": f"data of {id}" for id in ids})
    if waits:
        place.raw.lpush(f"{prefix}:queue", *ids)


def test_deep_in_a_long_queue_the_newest_id_takes_the_place_of_a_ghost(
    place: Place, prefix: str
) -> None:
    raw = place.raw
    ids = [f"{number:05}" for number in range(61_000)]
    for at in range(0, len(ids), 5_000):
        raw.rpush(f"{prefix}:queue", *ids[at : at + 5_000])
    raw.lset(f"{prefix}:queue", 30_500, "ghost")
    raw.lset(f"{prefix}:queue", 100, "ghost")
    raw.mset({f"{prefix}:item:{id}": "x" for id in ("00000", "30500")})
    drop = raw.register_script(SCRIPTS["drop"].text)
    key = f"{prefix}:"

    far = drop(keys=[key], args=[30_400, 200, "mark", "g", "ghost", 0])
    near = drop(keys=[key], args=[60_800, 200, "mark", "g", "ghost", 0])

    assert (far, near) == ([1, 0, 0], [1, 0, 0])
    assert raw.lindex(f"{prefix}:queue", 30_498) == b"00000"
    assert raw.llen(f"{prefix}:queue") == 60_998
    assert raw.lpos(f"{prefix}:queue", "ghost") is None
    assert raw.lpos(f"{prefix}:queue", "mark") is None
    raw.delete(f"{prefix}:queue", f"{prefix}:item:00000", f"{prefix}:item:30500")


def test_a_cleaner_looks_twice_before_it_takes_an_item() -> None:
    """A worker of another client gets an id first and writes its lease then."""
    times_s = iter([0.0, 10.0, 10.05])
    steps = Cleaner(Keys(KeyPrefix("p")), grace_s=0.2, now_s=lambda: next(times_s)).light()
    answers: dict[object, object] = {"LRANGE": [b"a"], "EXISTS": 1, "EVALSHA": b"w"}
    answer = None
    while not isinstance(request := steps.send(answer), Pause):
        words = (
            request.by_hash(False) if isinstance(request, Call) else getattr(request, "words", [""])
        )
        answer = [] if b"p:cleaning" in words else answers.get(words[0])

    assert request.seconds == pytest.approx(0.15)
