"""quinque.open: what a program hears of a store of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quinque
import quinque.aio
from quinque.errors import BadDriver, FolderLocked, NoKind, NotDone, QuinqueError, StoreClosed
from quinque.model.families import JOBS
from quinque.model.work_ops import Add, Finish, Show, Take, Terms
from quinque.stores.opened import OpenedStore
from tests.client.conftest import Opener
from tests.drivers.odd_drivers import Timed
from tests.server.resp import TIMEOUT_S


def test_those_who_wait_are_told_when_the_store_is_closed(opener: Opener, tmp_path: Path) -> None:
    queues = opener.open(tmp_path / "q", fsync="no")
    jobs, told = queues.jobs("q"), list[type]()
    asked = threading.Barrier(4)

    def wait() -> None:
        asked.wait()
        try:
            jobs.take(timeout=None)
        except QuinqueError as error:
            told.append(type(error))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    asked.wait()
    queues.close()
    for thread in threads:
        thread.join(TIMEOUT_S)

    assert told == [StoreClosed] * 3
    with pytest.raises(StoreClosed, match="the store is closed"):
        jobs.add(b"x")


def test_a_child_process_must_not_use_it(tmp_path: Path) -> None:
    with quinque.open(tmp_path / "q", fsync="no") as queues:
        jobs = queues.jobs("q")
        jobs.add(b"x")
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()

        def in_child() -> None:
            try:
                jobs.take()
            except StoreClosed as error:
                theirs.send(str(error))
            queues.close()

        child = fork.Process(target=in_child)
        child.start()
        assert ours.poll(TIMEOUT_S)
        assert "opened by another process" in ours.recv()
        child.join(TIMEOUT_S)

        [job] = jobs.take_many(2)
        assert job.body == b"x"


def test_it_is_for_one_process_and_everything_stays(opener: Opener, tmp_path: Path) -> None:
    queues = opener.open(tmp_path / "q")
    with pytest.raises(FolderLocked):
        opener.open(tmp_path / "q")
    queues.jobs("q").add(b"job")
    tube = queues.tube("t")
    tube.make()
    tube.put(b"task")
    assert tube.take()
    queues.close()

    again = opener.open(tmp_path / "q")

    assert again.jobs("q").take().body == b"job"
    assert again.tube("t").take().body == b"task"


def test_drivers_may_be_given(opener: Opener, tmp_path: Path) -> None:
    tube = opener.open(tmp_path / "q", fsync="no", drivers={"timed": Timed}).tube("t")

    tube.make("timed")
    tube.put(b"x")

    assert tube.take().body == b"x"
    with pytest.raises(NoKind):
        opener.open(tmp_path / "other", fsync="no").tube("t").make("timed")
    with pytest.raises(BadDriver):
        opener.open(tmp_path / "third", drivers={"bad": object()})


def test_a_folder_that_cannot_be_used_is_named(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotDone, match=f"cannot open the data directory {tmp_path}/file: .*exists"):
        opener.open(tmp_path / "file")


class Reentrant(Timed):
    """Its tube asks the store for more, as a signal handler does that runs during a put."""

    ask: Callable[[], Any]

    def put(self, data: bytes, options: Any) -> Any:
        with pytest.raises(NotDone, match="another operation of this thread is in progress"):
            self.ask()
        return super().put(data, options)


def test_what_asks_in_the_middle_of_an_operation_is_refused(tmp_path: Path) -> None:
    with quinque.open(tmp_path / "q", fsync="no", drivers={"reentrant": Reentrant}) as queues:
        Reentrant.ask = staticmethod(lambda: queues.jobs("q").add(b"x"))
        tube = queues.tube("t")
        tube.make("reentrant")

        tube.put(b"task")

        assert queues.jobs("q").info() is None
        assert queues.jobs("q").add(b"x")
        task = tube.take()

    assert task is not None
    assert task.body == b"task"


class Interrupting(Timed):
    """As if Ctrl-C came in the middle of a put."""

    def put(self, data: bytes, options: Any) -> Any:
        super().put(data, options)
        raise KeyboardInterrupt


def test_who_is_interrupted_in_the_middle_of_something_has_to_open_it_again(tmp_path: Path) -> None:
    drivers = {"interrupting": Interrupting}
    queues = quinque.open(tmp_path / "q", drivers=drivers)
    tube, jobs = queues.tube("t"), queues.jobs("q")
    tube.make("interrupting")
    jobs.add(b"before")

    with pytest.raises(KeyboardInterrupt):
        tube.put(b"x")
    with pytest.raises(StoreClosed, match="was interrupted: open the data directory again"):
        jobs.take()
    queues.close()

    with quinque.open(tmp_path / "q", drivers=drivers) as again:
        assert [job.body for job in again.jobs("q").take_many(5)] == [b"before"]
        assert again.tube("t").take() is None


def _delayed_job(queues: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    jobs = queues.jobs("q")
    return lambda: jobs.take(timeout=None), lambda: jobs.add(b"x", delay=0.01)


def _delayed_task(queues: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    tube = queues.tube("t")
    tube.make("fifottl")
    return lambda: tube.take(timeout=None), lambda: tube.put(b"x", delay=0.01)


def _shorter_lease(queues: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    items = queues.items("i")
    items.add("id", b"x")
    item = items.lease(86_400)
    return lambda: items.lease(1, timeout=None), lambda: item.extend(0.01)


@pytest.mark.parametrize("begin", [_delayed_job, _delayed_task, _shorter_lease])
def test_a_blocked_call_gets_a_message_that_becomes_ready_later(
    opener: Opener, tmp_path: Path, begin: Callable[[Any], Any]
) -> None:
    queues = opener.open(tmp_path / "q", fsync="no")
    take, make_ready_later = begin(queues)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(take()))
    waiting.start()
    while not queues.runner._store._due_ms:  # it does not wait yet
        os.sched_yield()

    make_ready_later()
    waiting.join(TIMEOUT_S)

    assert [message.body for message in found] == [b"x"]


class NoMemory(Counter[bytes]):
    """Ids that somebody waits for. There is no memory to look them up."""

    def __len__(self) -> int:
        raise MemoryError


def test_a_store_in_which_an_operation_failed_half_way_has_to_be_opened_again(
    tmp_path: Path,
) -> None:
    store = OpenedStore(tmp_path / "q")
    ids = store.run(Add(JOBS, b"q", [b"x", b"y"], Terms(ttl_ms=60_000)))
    store._store.watched = NoMemory()

    with pytest.raises(MemoryError):
        store.run_all([Finish(JOBS, ids[:1]), Finish(JOBS, ids[1:])])
    with pytest.raises(StoreClosed, match=r"failed \(MemoryError\): open the data directory again"):
        store.run(Show(JOBS, ids[0]))
    store.close()

    again = OpenedStore(tmp_path / "q")
    assert len(again.run(Take(JOBS, [b"q"], 5))) == 2
    again.close()


def test_many_tasks_that_wait_do_not_keep_out_the_one_that_adds(tmp_path: Path) -> None:
    async def work() -> list[list[str]]:
        async with quinque.aio.open(tmp_path / "q", fsync="no") as queues:
            jobs = queues.jobs("q")
            waiting = [asyncio.create_task(jobs.take(timeout=TIMEOUT_S)) for _ in range(60)]
            await asyncio.sleep(0)
            ids = await jobs.add_many([b"x"] * 60)
            taken = await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
            return [ids, [job.id for job in taken if job]]

    ids, taken = asyncio.run(work())
    assert sorted(ids) == sorted(taken)
