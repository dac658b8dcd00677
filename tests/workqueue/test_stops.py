"""A worker or a cleaner of any client dies between any two commands, and our cleaning repairs it.

Each case is played once for every number of commands that it gets to send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.servers.redis_server import RedisServer
from tests.workqueue.dying import Died, DyingRedis
from tests.workqueue.other_clients import Client, NewGeneration, Ours, PublishedPython
from tests.workqueue.stage import Picture, Place, abandon, sync_worker

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")

KINDS: dict[str, Callable[[Any, str], Client]] = {
    "ours": Ours,
    "python": PublishedPython,
    "new": NewGeneration,
}
COMMANDS_MOST = 40


@pytest.fixture
def db(redis_server: RedisServer) -> Iterator[DyingRedis]:
    with DyingRedis(unix_socket_path=redis_server.url.removeprefix("unix://")) as client:
        yield client


def _add(client: Client) -> None:
    client.add("c", "data of c")


def _lease(client: Client) -> None:
    client.lease()


def _complete(client: Client) -> None:
    item = client.lease()
    assert item is not None
    client.complete(item[0])


def _clean(client: Client) -> None:
    client.clean()


@pytest.mark.parametrize("act", [_add, _lease, _complete, _clean])
@pytest.mark.parametrize("name", KINDS)
def test_after_any_command_nothing_is_lost_and_nothing_completed_comes_back(
    place: Place, prefix: str, db: DyingRedis, name: str, act: Callable[[Client], None]
) -> None:
    for lives in range(COMMANDS_MOST):
        queue = f"{prefix}{lives}"
        has_died = _play(place, queue, db, KINDS[name], act, lives)

        existing = Picture(place.raw, queue).items
        abandon(place.raw, queue)
        cleaner = sync_worker(place.raw, queue)
        cleaner.deep_clean()

        picture = Picture(place.raw, queue)
        assert sorted(picture.waiting) == sorted(existing), lives
        assert (picture.processing, picture.cleaning) == ([], []), lives
        assert {"a", "b"} - existing <= ({"a"} if act is _complete else set()), lives
        _run_all(place, queue, existing)
        if not has_died:
            assert lives > 0
            return
    raise AssertionError(f"it needs more than {COMMANDS_MOST} commands")


def _play(
    place: Place,
    queue: str,
    db: DyingRedis,
    kind: Callable[[Any, str], Client],
    act: Callable[[Client], None],
    lives: int,
) -> bool:
    """Two items wait, one of them abandoned if it is cleaned; whether the worker died."""
    helper = kind(place.raw, queue)
    helper.add("a", "data of a")
    helper.add("b", "data of b")
    if act is _clean:
        helper.lease()
        abandon(place.raw, queue)
    db.lives = lives
    try:
        act(kind(db, queue))
    except Died:
        return True
    return False


def _run_all(place: Place, queue: str, existing: set[str]) -> None:
    """Every item that there is is leased once, and is then gone."""
    worker = sync_worker(place.raw, queue)
    run = []
    while (item := worker.lease()) is not None:
        assert item.data() == f"data of {item.id()}".encode()
        assert worker.complete(item)
        run.append(item.id())
    assert sorted(run) == sorted(existing)
    assert Picture(place.raw, queue).is_empty


@pytest.mark.parametrize("name", KINDS)
def test_light_cleaning_is_enough_after_a_lease(
    place: Place, prefix: str, db: DyingRedis, name: str
) -> None:
    for lives in range(COMMANDS_MOST):
        queue = f"{prefix}{lives}"
        has_died = _play(place, queue, db, KINDS[name], _lease, lives)
        abandon(place.raw, queue)

        sync_worker(place.raw, queue).light_clean()

        assert sorted(Picture(place.raw, queue).waiting) == ["a", "b"], lives
        _run_all(place, queue, {"a", "b"})
        if not has_died:
            return


def test_a_worker_of_ours_that_dies_while_it_waits_loses_nothing(
    place: Place, prefix: str, db: DyingRedis
) -> None:
    """It was given an id, and died before it asked for the lease."""
    worker = sync_worker(db, prefix)
    place.raw.set(f"{prefix}:item:a", "data of a")
    db.lives = 1
    place.raw.lpush(f"{prefix}:queue", "a")
    place.raw.lmove(f"{prefix}:queue", f"{prefix}:processing", "RIGHT", "LEFT")
    assert worker.lease(block=False) is None  # nothing waits
    with pytest.raises(Died):
        worker.lease(block=False)

    sync_worker(place.raw, prefix).light_clean()

    _run_all(place, prefix, {"a"})


@pytest.mark.parametrize("way", ["light", "deep"])
def test_our_cleaner_may_die_anywhere(place: Place, prefix: str, db: DyingRedis, way: str) -> None:
    for lives in range(COMMANDS_MOST):
        queue = f"{prefix}{lives}"
        helper = sync_worker(place.raw, queue)
        client = Ours(place.raw, queue)
        for id in "abcd":
            client.add(id, f"data of {id}")
        client.lease()
        client.lease()
        abandon(place.raw, queue)
        place.raw.lpush(f"{queue}:queue", "ghost", "c")
        place.raw.lpush(f"{queue}:processing", "d")
        db.lives = lives
        dying = sync_worker(db, queue)
        try:
            dying.light_clean() if way == "light" else dying.deep_clean()
            has_died = False
        except Died:
            has_died = True

        helper.deep_clean()

        picture = Picture(place.raw, queue)
        assert sorted(picture.waiting) == ["a", "b", "c", "d"], lives
        assert picture.processing == [], lives
        _run_all(place, queue, set("abcd"))
        if not has_died:
            return
    raise AssertionError(f"it needs more than {COMMANDS_MOST} commands")
