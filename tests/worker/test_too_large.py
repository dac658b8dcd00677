"""Results and dead letters that are larger than the broker takes concern only their own message."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

import quinque
from quinque.client.sync.queues import Queues
from quinque.model.states import State
from tests.server.broker import RunningBroker, start_broker
from tests.servers import stores
from tests.servers.patience import wait_until
from tests.worker.inside import CountingApp, working

LIMIT = 64 << 10


@pytest.fixture(scope="module", params=[kind for kind in stores.ALL if kind != "cluster"])
def narrow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """A broker that takes little."""
    flags = stores.store_flags(request, request.param)
    limits = ("--max-arg-size", str(LIMIT))
    with start_broker(tmp_path_factory.mktemp("narrow"), *flags, *limits) as running:
        yield running


@pytest.fixture
def app(narrow: RunningBroker) -> CountingApp:
    return CountingApp(f"redis://127.0.0.1:{narrow.port}")


@pytest.fixture
def queues(app: CountingApp) -> Iterator[Queues]:
    with quinque.connect(app.url) as connected:
        yield connected


def test_a_result_that_is_too_large_fails_its_message_and_no_other(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs = queues.jobs(queue, codec="json", retry=300)
    jobs.add_many([1, 2, LIMIT, 3, 4])
    app.add(queue, lambda size: "x" * size, codec="json", results=f"{queue}.done", max_deliveries=1)

    with working(app):
        wait_until(
            lambda: (it := jobs.info()) is not None and not it.ready + it.leased, "all have ended"
        )

    [dead] = jobs.peek(state=State.DEAD)
    told = queues.jobs(f"{queue}.done", codec="json").take_many(100)
    assert dead.body == b"%d" % LIMIT
    assert dead.reason.startswith(b"TooLarge: ")
    assert {job.body["result"] for job in told} == {"x" * size for size in (1, 2, 3, 4)}


BODIES = {
    "control": b"\1" * (LIMIT - 100),  # 6 times as large in JSON
    "binary": b"\xff" * (LIMIT - 100),
    "text": b"x" * (LIMIT - 100),
    "small": b"small",
}


@pytest.mark.parametrize("family", ["items", "events", "reliable"])
def test_dead_letters_of_large_messages_are_in_parts_and_hold_nobody_up(
    app: CountingApp, queues: Queues, queue: str, family: str
) -> None:
    items, events, elements = queues.items(queue), queues.events(queue), queues.reliable(queue)
    for name, body in BODIES.items():
        if family == "items":
            items.add(name, body)
        elif family == "events":
            events.add(body)
        else:
            elements.push(body)

    def fail(body: bytes) -> None:
        raise ValueError("no")

    app.add(queue, fail, family=family, group="g", max_deliveries=1, lease=300)
    with working(app) as board:
        wait_until(
            lambda: (it := board.read()).failed == len(BODIES) and not it.held, "all have failed"
        )

    letters = [job.body for job in queues.jobs(f"{queue}.dead", codec="json").take_many(100)]
    assert sorted(bodies_of(letters)) == sorted(BODIES.values())
    assert all(letter["traceback"].startswith("ValueError: no") for letter in letters)
    left = {"items": items.info, "reliable": elements.info}.get(family)
    if left is not None:
        assert (it := left()) is None or it.ready + it.leased == 0
    else:
        assert (counted := events.info()) is not None
        assert counted.groups[0].done == len(BODIES)


def bodies_of(letters: list[dict[str, Any]]) -> list[bytes]:
    """The bodies, as a program puts them together."""
    bodies: dict[str, dict[int, bytes]] = {}
    for letter in letters:
        text = letter.get("body")
        piece = b64decode(letter["body_base64"]) if text is None else text.encode()
        bodies.setdefault(letter["id"], {})[letter.get("part", 1)] = piece
        assert len(json.dumps(letter)) <= LIMIT
    return [b"".join(parts[number] for number in sorted(parts)) for parts in bodies.values()]
