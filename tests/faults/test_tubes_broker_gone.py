"""Two brokers on one Redis, and one of them is killed while its clients have taken tasks.

The other one notices when it has not heard of it for a while, and returns the tasks; those of a
session that is kept are there for whoever comes back to it, at whichever broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from quinque.model.limits import NODE_FAILED_MS
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Refusal
from tests.servers import stores


@pytest.fixture
def brokers(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    flags = stores.store_flags(request, "redis")
    with start_broker(tmp_path / "a", *flags) as first, start_broker(tmp_path / "b", *flags) as two:
        yield first, two


def test_tasks_of_a_broker_that_is_killed_come_back_once_and_keep_their_order(
    brokers: tuple[RunningBroker, RunningBroker],
) -> None:
    doomed, other = brokers
    with doomed.connect() as one, doomed.connect() as two, other.connect() as client:
        assert client.call("TUBE.CREATE", "t", "utube") == 1
        for number in range(6):
            one.call("TUBE.PUT", "t", number, "UTUBE", number % 3)
        given = [worker.call("TUBE.TAKE", "t", 0)[0] for worker in (one, two, one)]
        assert given == [0, 1, 2]
        assert one.call("TUBE.ACK", "t", 2)[1] == b"-"
        assert one.call("TUBE.IDENTIFY", "shared") == b"shared"
        assert one.call("TUBE.TAKE", "t", 30, "LANE", 0)[0] == 0, "it left its old session"
        assert client.call("TUBE.IDENTIFY", "shared") == b"shared"

        alive_s = monotonic()
        doomed.kill()

        assert client.call("TUBE.ACK", "t", 1) == Refusal("NOTTAKEN Task was not taken")
        first, second = (client.call("TUBE.TAKE", "t", wait_s)[0] for wait_s in (0, 30))
        # The last sign of it may be a second older than the kill.
        is_late = monotonic() - alive_s > NODE_FAILED_MS / 1000 - 1
        assert (first, second) == (5, 1) or (is_late and (first, second) == (1, 5)), (
            "the lane of the other is busy until it is noticed"
        )
        assert client.call("TUBE.ACK", "t", 0)[1] == b"-", "the session has a connection still"
        assert client.call("TUBE.ACK", "t", 1, 5) == [[1, b"-", b"1"], [5, b"-", b"5"]]
        assert [client.call("TUBE.TAKE", "t", 0)[0] for _ in range(2)] == [3, 4]
        assert client.call("TUBE.TAKE", "t", 0) is None, "nothing that was acked comes back"
