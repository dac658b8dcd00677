"""A network that drops replies while connections stay open, between clients and a real broker."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import quinque
from quinque.errors import ConnectionLost, OutcomeUnknown
from tests.client.conftest import Opener
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers.cutting_proxy import CuttingProxy

LOST_S = 1.0  # the client gives up on a reply after this
RETRY_S = 1


@pytest.fixture
def network(embedded_broker: RunningBroker) -> Iterator[CuttingProxy]:
    with CuttingProxy("127.0.0.1", embedded_broker.port) as proxy:
        yield proxy


@pytest.fixture
def well_connected(opener: Opener, embedded_broker: RunningBroker) -> Any:
    return opener.connect(f"redis://127.0.0.1:{embedded_broker.port}", timeout_s=TIMEOUT_S)


def test_an_addition_whose_reply_is_lost_is_reported_as_unknown_and_stored_once(
    opener: Opener, network: CuttingProxy, well_connected: Any, queue: str
) -> None:
    queues = opener.connect(network.url, timeout_s=LOST_S, retries=20)
    queues.jobs(queue).info()  # now a connection is open

    network.swallow(to_client=True)
    with pytest.raises(OutcomeUnknown):
        queues.jobs(queue).add(b"x")

    assert [job.body for job in well_connected.jobs(queue).take_many(10)] == [b"x"]


def test_a_job_that_a_vanished_client_took_comes_back_after_its_retry_time(
    opener: Opener, network: CuttingProxy, well_connected: Any, queue: str
) -> None:
    jobs = well_connected.jobs(queue)
    id = jobs.add(b"x", retry=RETRY_S)
    queues = opener.connect(network.url, timeout_s=LOST_S, retries=20)
    queues.jobs(queue).info()  # now a connection is open

    network.swallow(to_client=True)
    with pytest.raises(OutcomeUnknown):
        queues.jobs(queue).take()

    again = jobs.take(timeout=TIMEOUT_S)
    assert again.id == id
    assert jobs.ack([again]) == 1


def test_a_thread_gives_up_on_a_reply_though_signals_come(
    embedded_broker: RunningBroker, network: CuttingProxy, queue: str
) -> None:
    """Signals of a timer, as a profiler uses: each interrupts the system call that waits."""
    with quinque.connect(network.url, timeout_s=LOST_S, retries=0) as queues:
        queues.jobs(queue).info()  # now a connection is open
        network.swallow(to_client=True)
        came = count()
        before = signal.signal(signal.SIGALRM, lambda *_: _give_up_after(next(came)))
        signal.setitimer(signal.ITIMER_REAL, LOST_S / 4, LOST_S / 4)
        try:
            with pytest.raises(OutcomeUnknown):
                queues.jobs(queue).add(b"x")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _give_up_after(signals: int) -> None:
    assert signals < 4 * TIMEOUT_S, "the client still waits"


@pytest.mark.parametrize("family", ["items", "events"])
def test_a_lease_that_is_ended_is_not_ended_again_when_somebody_else_may_have_the_message(
    opener: Opener, network: CuttingProxy, well_connected: Any, queue: str, family: str
) -> None:
    queues = opener.connect(network.url, retries=20)
    if family == "items":
        well_connected.items(queue).add("x", b"x")
        message = queues.items(queue).lease(300)
    else:
        well_connected.events(queue).add(b"x")
        message = queues.events(queue).group("g", lease=300).take()
    ended: list[BaseException | bool] = []

    def end() -> None:
        try:
            ended.append(message.extend(0.001))
        except OutcomeUnknown as error:
            ended.append(error)

    cuts = network.cuts
    network.cut(to_client=0)  # what is asked is done, and nobody hears of it
    ending = threading.Thread(target=end)
    ending.start()
    group = well_connected.events(queue).group("g", lease=300)
    if family == "items":
        other = well_connected.items(queue).lease(300, timeout=TIMEOUT_S)
    else:
        other = group.take(timeout=TIMEOUT_S)
    network.wait_for_cut(cuts + 1)  # the answer may come after the message went to the other
    network.go_on()
    ending.join(TIMEOUT_S)

    assert other is not None
    assert [type(it) for it in ended] == [ConnectionLost]
    if family == "items":
        assert well_connected.items(queue).info().ready == 0
    else:
        assert group.take(timeout=0.1) is None
