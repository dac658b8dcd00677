"""The example: of each key one task waits, with the newest data, and one is worked at a time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from examples.drivers.unique.quinque_unique import Unique
from quinque.errors import BadArgument
from quinque.model.tube_ops import LeaveSession
from tests.drivers.workshop import ME, TUBE, YOU, Workshop

Workshops = Callable[..., Workshop]


@pytest.fixture
def unique(workshop: Workshops) -> Workshop:
    return workshop(unique=Unique)


def test_a_key_that_waits_is_put_again_and_is_the_same_task(unique: Workshop) -> None:
    assert unique.put(b"rev-1", key="page:17") == (0, "r", b"rev-1")
    assert unique.put(b"other", key="page:18") == (1, "r", b"other")
    assert unique.put(b"rev-2", key="page:17") == (0, "r", b"rev-2")

    assert unique.take_all(3) == [(0, "t", b"rev-2"), (1, "t", b"other")]
    assert unique.calls()["put"] == 3


def test_without_a_key_the_data_is_the_key(unique: Workshop) -> None:
    assert unique.put_all(b"a", b"b", b"a") == [(0, "r", b"a"), (1, "r", b"b"), (0, "r", b"a")]
    with pytest.raises(BadArgument, match="key is text"):
        unique.put(b"c", key=[1])


def test_what_is_put_while_its_key_is_worked_waits_until_that_is_done(unique: Workshop) -> None:
    unique.put(b"rev-1", key=17)
    unique.take()
    assert unique.put(b"rev-2", key=17) == (1, "~", b"rev-2")
    assert unique.put(b"rev-3", key=17) == (1, "~", b"rev-3")
    assert unique.take() is None
    unique.store.ready.clear()

    unique.ack(0)

    assert unique.store.ready == {TUBE}
    assert unique.take() == (1, "t", b"rev-3")


def test_a_task_that_is_released_has_the_data_that_came_meanwhile(unique: Workshop) -> None:
    unique.put(b"rev-1", key=17)
    unique.take(YOU)
    unique.put(b"rev-2", key=17)

    unique.store.run(LeaveSession(YOU))

    assert unique.all() == [(0, "r", b"rev-2")]


def test_a_buried_task_makes_way_and_is_kicked_when_nothing_newer_is_there(
    unique: Workshop,
) -> None:
    unique.put_all(b"a", b"b")
    unique.take_all(2)
    unique.put(b"new", key=b"a")
    unique.bury(0)
    unique.bury(1)

    assert unique.kick_these(0) == 0
    assert unique.kick(5) == 1

    assert unique.all() == [(0, "!", b"a"), (1, "r", b"b"), (2, "r", b"new")]
    unique.delete(2)
    assert unique.kick_these(0, 1) == 1


def test_a_task_is_ready_when_its_key_has_been_quiet(workshop: Workshops) -> None:
    quiet = workshop({"quiet": "1.5"}, unique=Unique)
    quiet.put(b"rev-1", key="k")
    quiet.pass_time(1000)
    assert quiet.put(b"rev-2", key="k") == (0, "~", b"rev-2")
    quiet.pass_time(1000)
    assert quiet.take() is None
    quiet.reopen()
    quiet.clock.advance(500)

    assert quiet.take() == (0, "t", b"rev-2")
    assert quiet.calls() == {"take": 1, "delay": 1}


@pytest.mark.parametrize("quiet", ["abc", "-1", None, "inf"])
def test_a_tube_that_is_quiet_for_no_time_is_not_made(workshop: Workshops, quiet: str) -> None:
    with pytest.raises(BadArgument, match="quiet is a number of seconds"):
        workshop({"quiet": quiet}, unique=Unique)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_each_key_waits_once_is_worked_once_and_survives(
    workshop: Workshops, seed: int
) -> None:
    random = Random(seed)
    shop = workshop({"quiet": random.choice((0, 0.02))}, unique=Unique)
    newest: dict[int, bytes] = {}  # of the keys that have a task, the data that was put last
    for step in range(300):
        id = random.randrange(max(1, step // 2))
        word = random.choices(
            ("put", "take", "ack", "release", "bury", "kick", "time", "reopen"),
            (30, 20, 15, 6, 4, 3, 10, 2),
        )[0]
        if word == "put":
            key = random.randrange(5)
            newest[key] = b"%d:%d" % (key, step)
            shop.put(newest[key], key=key)
        elif word == "take":
            shop.take(random.choice((ME, YOU)))
        elif word == "time":
            shop.pass_time(random.randrange(30))
        elif word == "reopen":
            before = shop.all()
            shop.reopen(segment_bytes=1 << 16)
            assert shop.all() == before
        elif word == "kick":
            shop.kick(random.randrange(3))
        else:
            getattr(shop, word)(id)
        _check(shop.all(), newest)


def _check(tasks: list[tuple[int, str, bytes]], newest: dict[int, bytes]) -> None:
    waiting = [data for _, letter, data in tasks if letter in "r~"]
    taken = [data for _, letter, data in tasks if letter == "t"]
    for some in (waiting, taken):
        keys = [data.partition(b":")[0] for data in some]
        assert len(keys) == len(set(keys))
    for data in waiting:
        key = int(data.partition(b":")[0])
        behind = [it for it in taken if it.startswith(b"%d:" % key)]
        assert data == newest[key] or not behind
