"""What a program hears, in both colours, when a broker goes away or does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quinque.aio
from quinque.client.addresses import Address
from quinque.client.aio.broker import Broker
from quinque.client.aio.edge import connect
from quinque.client.link import NotSent
from quinque.errors import NotDone, OutcomeUnknown
from tests.client.conftest import Opener
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import TIMEOUT_S
from tests.unit.test_client_broker import Silent


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with start_broker(tmp_path_factory.mktemp("mortal"), "--fsync", "no") as running:
        yield running


PATIENT = 20  # retries: a broker is back by then, however busy the machine is
# In which a broker answers. One that is well may be late on a busy machine; then there is more.
TRIED_S = (0.2, 2.0, 20.0)
ID = "D-dcb833cf-rEh6ASt9I3oyJ301XFS1XOa+-05a1"


def url_of(port: int) -> str:
    return f"redis://127.0.0.1:{port}"


def test_a_client_finds_a_broker_that_came_back(
    opener: Opener, mortal: RunningBroker, queue: str
) -> None:
    queues = opener.connect(url_of(mortal.port), retries=PATIENT)
    jobs, tube = queues.jobs(queue), queues.tube(queue + "t")
    tube.make()
    tube.put(b"task")
    jobs.add(b"kept", key="k")
    assert tube.take().body == b"task"

    mortal.kill()
    back = threading.Thread(target=lambda: mortal.restart())
    back.start()

    assert jobs.add(b"again", key="k") == jobs.find("k")
    back.join()
    assert jobs.take().body == b"kept"
    # The session ended with its connections, and this is a new one of the same name.
    assert tube.take(timeout=30).ack() is True


def test_whoever_goes_through_a_queue_goes_on(
    opener: Opener, mortal: RunningBroker, queue: str
) -> None:
    jobs = opener.connect(url_of(mortal.port), retries=PATIENT).jobs(queue)
    going = iter(jobs)
    jobs.add(b"one")
    assert next(going).ack()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(next(going)))
    waiting.start()

    mortal.kill()
    mortal.restart()
    jobs.add(b"two")
    waiting.join(TIMEOUT_S)

    assert [job.body for job in found] == [b"two"]
    going.close()


def test_whoever_goes_through_a_queue_goes_on_after_a_long_outage(
    opener: Opener, mortal: RunningBroker, queue: str
) -> None:
    jobs = opener.connect(url_of(mortal.port), retries=0).jobs(queue)
    going, found = iter(jobs), list[Any]()
    waiting = threading.Thread(target=lambda: found.append(next(going)))

    mortal.kill()
    waiting.start()  # it is refused at once, and without retries each refusal is an error
    mortal.restart()
    opener.connect(url_of(mortal.port), retries=PATIENT).jobs(queue).add(b"x", key="k")
    waiting.join(TIMEOUT_S)

    assert [job.body for job in found] == [b"x"]
    going.close()


def test_what_has_no_answer_is_said_to_be_unknown_unless_it_may_be_repeated(
    opener: Opener,
) -> None:
    with Silent() as silent:
        jobs = opener.connect(url_of(silent.port), retries=1).jobs("q")

        for unknown in (lambda: jobs.add(b"x"), jobs.take, jobs.purge):
            asked = silent.requests
            with pytest.raises(OutcomeUnknown, match="the request may have been carried out"):
                unknown()
            assert silent.requests == asked + 1
        for safe in (lambda: jobs.add(b"x", key="k"), jobs.info, lambda: jobs.ack([ID])):
            asked = silent.requests
            with pytest.raises(OutcomeUnknown):
                safe()
            assert silent.requests == asked + 2


def test_what_was_unknown_once_stays_so_when_nobody_answers_any_more(opener: Opener) -> None:
    with Silent() as silent:
        jobs = opener.connect(url_of(silent.port), retries=1).jobs("q")
        silent.is_last = True

        with pytest.raises(OutcomeUnknown, match="the request may have been carried out"):
            jobs.add(b"x", key="k")
    assert silent.requests == 1


@pytest.mark.parametrize(
    ("answers", "times", "kind"),
    [
        (b"-NOTDONE not reached\r\n" * 2, 2, NotDone),
        (b"+D-1\r\n-NOTDONE not reached\r\n", 1, OutcomeUnknown),
    ],
)
def test_of_several_all_are_asked_again_or_none(
    opener: Opener, answers: bytes, times: int, kind: type[Exception]
) -> None:
    with Silent(answers) as busy:
        jobs = opener.connect(url_of(busy.port), retries=1).jobs("q")

        with pytest.raises(kind, match="not reached"):
            jobs.add_many([b"a", b"b"])
        assert busy.requests == times


def test_a_broker_that_hangs_is_passed_over_with_all_its_connections(
    opener: Opener, embedded_broker: RunningBroker, queue: str
) -> None:
    def pass_over(timeout_s: float) -> None:
        with Silent(b"*-1\r\n") as hanging:
            url = f"{url_of(hanging.port)},127.0.0.1:{embedded_broker.port}"
            jobs = opener.connect(url, timeout_s=timeout_s, retries=0).jobs(f"{queue}{timeout_s}")
            assert jobs.info() is None
            hanging.is_deaf = True

            for _ in range(3):
                assert jobs.info() is None
            assert jobs.add(b"x")
            assert hanging.requests == 2

    for timeout_s in TRIED_S:
        try:
            pass_over(timeout_s)
            break
        except (AssertionError, NotDone, OutcomeUnknown):
            if timeout_s == TRIED_S[-1]:
                raise


def test_a_new_client_passes_over_a_broker_that_accepts_and_says_nothing(
    embedded_broker: RunningBroker, queue: str
) -> None:
    """The client waits longer than this test does for answers, but not for a first one. That limit
    of 5 s is not the limit of the requests that follow on the connection."""
    found: list[Any] = []

    def take(colour: str, url: str) -> None:
        opener = Opener(colour)
        found.append(opener.connect(url, timeout_s=10_000).jobs(queue).take(timeout=6))
        opener.close()

    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"{url_of(hanging.getsockname()[1])},127.0.0.1:{embedded_broker.port}"
        taking = [
            threading.Thread(target=take, args=(colour, url), daemon=True)
            for colour in ("sync", "aio")
        ]
        for thread in taking:
            thread.start()
        for thread in taking:
            thread.join(TIMEOUT_S)

    assert found == [None, None]


def test_what_is_raised_over_a_message_is_not_hidden_by_a_broker_that_is_gone(
    opener: Opener,
) -> None:
    job = b"*1\r\n*7\r\n$1\r\nq\r\n$40\r\n%b\r\n$1\r\nx\r\n+n\r\n:0\r\n+a\r\n:0\r\n" % (ID.encode())
    with Silent(job) as silent:
        taken = opener.connect(url_of(silent.port), retries=0).jobs("q").take()

    with pytest.raises(ZeroDivisionError), taken:
        1 / 0  # noqa: B018


def test_what_a_broker_calls_unknown_is_unknown(opener: Opener) -> None:
    with Silent(b"-UNAVAILABLE who knows\r\n") as unsure:
        jobs = opener.connect(url_of(unsure.port), retries=0).jobs("q")

        with pytest.raises(OutcomeUnknown, match="who knows"):
            jobs.add(b"x")


@pytest.mark.parametrize("refusal", [b"-UNAVAILABLE no answer in 5 s", b"-LOADING not yet"])
def test_a_session_that_cannot_be_joined_now_is_joined_later(
    opener: Opener, refusal: bytes
) -> None:
    with Silent(refusal + b"\r\n") as unsure:
        tube = opener.connect(url_of(unsure.port), retries=1).tube("t")

        for ask in (tube.take, lambda: tube.take(timeout=None), lambda: tube.ack(1)):
            asked = unsure.requests
            with pytest.raises(NotDone, match=r"no answer in 5 s|not yet"):
                ask()
            assert unsure.requests == asked + 2


def test_where_nobody_answers_nothing_is_done(opener: Opener, tmp_path: Path) -> None:
    queues = opener.connect(f"unix://{tmp_path / 'nobody'}", retries=1)

    with pytest.raises(NotDone, match="no broker answers at"):
        queues.jobs("q").add(b"x")


def test_a_program_is_one_session_whatever_connection_it_asks_on(
    opener: Opener, embedded_broker: RunningBroker, queue: str
) -> None:
    url = url_of(embedded_broker.port)
    tube, others = opener.connect(url).tube(queue), opener.connect(url).tube(queue)
    tube.make()
    tube.put_many([b"a", b"b"])
    first = tube.take()
    waiting = threading.Thread(target=lambda: tube.take_many(2, timeout=0.2))
    assert tube.take()
    waiting.start()

    assert others.ack([first.id]) == 0  # it is not theirs
    assert first.ack() is True
    waiting.join()


def test_tasks_share_a_few_connections_and_those_who_wait_keep_nobody_out(
    embedded_broker: RunningBroker, queue: str
) -> None:
    async def work() -> tuple[int, list[bytes]]:
        url = url_of(embedded_broker.port)
        async with quinque.aio.connect(url, connections=2) as queues, Broker(url) as other:
            jobs = queues.jobs(queue)
            before = (await other.call("CLIENT", "LIST")).count(b"\n")
            await asyncio.gather(*(jobs.add(b"%d" % number) for number in range(50)))
            opened = (await other.call("CLIENT", "LIST")).count(b"\n") - before
            await jobs.purge()
            waiting = [asyncio.create_task(jobs.take(timeout=30)) for _ in range(8)]
            await jobs.add_many([b"%d" % number for number in range(8)])
            taken = await asyncio.gather(*waiting)
            return opened, [job.body for job in taken if job is not None]

    opened, bodies = asyncio.run(work())

    assert opened <= 2
    assert sorted(bodies) == [b"%d" % number for number in range(8)]


def test_a_task_that_is_interrupted_disturbs_no_other(
    embedded_broker: RunningBroker, queue: str
) -> None:
    async def work() -> tuple[int, list[bytes]]:
        async with quinque.aio.connect(url_of(embedded_broker.port)) as queues:
            jobs = queues.jobs(queue)
            adding = [asyncio.create_task(jobs.add(b"%d" % number)) for number in range(50)]
            await adding[0]
            late = [asyncio.create_task(jobs.add(b"late")) for _ in range(5)]
            await asyncio.sleep(0)
            for task in late[1:]:  # the first is sent, the others are about to be
                task.cancel()
            ids = await asyncio.gather(*adding)
            ended = await asyncio.gather(*late, return_exceptions=True)
            taken = await jobs.take_many(100)
            assert [job.id for job in taken if job.body != b"late"] == ids
            interrupted = [it for it in ended if isinstance(it, asyncio.CancelledError)]
            return len(interrupted), [job.body for job in taken]

    interrupted, bodies = asyncio.run(work())

    assert interrupted == 4
    assert sorted(bodies)[:50] == sorted(b"%d" % number for number in range(50))
    assert 1 <= bodies.count(b"late") <= 5


def test_of_what_was_asked_on_a_lost_connection_what_was_not_sent_is_not_done() -> None:
    async def work(port: int) -> list[type]:
        link = await connect(Address("127.0.0.1", port), None, TIMEOUT_S)
        asked = [asyncio.create_task(link.ask([["PING"]], TIMEOUT_S)) for _ in range(2)]
        await asyncio.sleep(0)
        link.close()  # the second would have been sent at the end of the turn
        return [type(it) for it in await asyncio.gather(*asked, return_exceptions=True)]

    with Silent() as silent:
        assert asyncio.run(work(silent.port)) == [ConnectionResetError, NotSent]


def test_another_event_loop_has_connections_of_its_own(
    embedded_broker: RunningBroker, queue: str
) -> None:
    queues = quinque.aio.connect(url_of(embedded_broker.port))

    async def add() -> str:
        return await queues.jobs(queue).add(b"x")

    async def take() -> list[str]:
        async with queues:
            return [job.id for job in await queues.jobs(queue).take_many(5)]

    loop = asyncio.new_event_loop()
    id = loop.run_until_complete(add())
    taken = asyncio.run(take())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    assert taken == [id]


def test_what_a_closed_program_had_taken_is_ready_for_another(
    opener: Opener, embedded_broker: RunningBroker, queue: str
) -> None:
    url = url_of(embedded_broker.port)
    leaving = opener.connect(url)
    tube = leaving.tube(queue)
    tube.make()
    tube.put(b"x")
    assert tube.take()

    leaving.close()

    assert opener.connect(url).tube(queue).take(timeout=30).body == b"x"
