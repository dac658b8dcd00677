"""quinque copy, as users run it: what it says, how it ends, and that it goes on where it was."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click.testing
import pytest

from quinque.cli.main import main
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Put, Reserve
from quinque.model.work_ops import Add, Finish, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.copying import carry
from quinque.stores.embedded.copy_out import open_folder
from tests.copying.places import FolderPlace, RedisPlace, ignore
from tests.copying.stops import Interrupted, Stops
from tests.server.broker import BrokerDidNotStart, start_broker
from tests.servers.cutting_proxy import CuttingProxy
from tests.servers.redis_server import RedisServer

HOUR_MS = 3_600_000
MESSAGES = 5_000
COMMAND = [sys.executable, "-m", "quinque", "copy"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FolderPlace:
    """Enough for several chunks of each family."""
    place = FolderPlace(tmp_path_factory.mktemp("source") / "a")
    with closing(place.open(ManualClock())) as store:
        for _ in range(MESSAGES // 1_000):
            bodies = [b"%d" % at for at in range(500)]
            store.run(Put(EVENTS, b"news", bodies))
            store.run(Add(JOBS, b"mail", bodies, Terms(HOUR_MS, 0, 60_000)))
            store.commit()
        store.run(Reserve(EVENTS, b"news", b"readers", HOUR_MS, 100))
        store.run(Take(JOBS, [b"mail"], 100))
        store.commit()
    return place


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def refused(*words: object) -> str:
    """Why it was refused, in one line."""
    done = click.testing.CliRunner().invoke(main, ["copy", *map(str, words)])
    assert done.exit_code == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("quinque: ").rstrip()


def test_a_folder_goes_to_redis_and_into_a_folder(
    source: FolderPlace, redis_url: str, tmp_path: Path
) -> None:
    there = run(source.folder, redis_url)
    back = run("--json", redis_url, f"embedded:{tmp_path / 'b'}")

    assert (there.returncode, there.stderr) == (0, "")
    first, *_, last_but_one, last = there.stdout.splitlines()
    assert first == "copied 500 of 5,000 messages" or first == "copied 1,000 of 5,000 messages"
    assert last_but_one == (
        f"copied 2 queues with 5,000 messages to {redis_url} "
        "(2,500 event, 1 group, 100 leased, 2,400 ready, 1 worklist)"
    )
    assert last.startswith("the source and the target are identical: checksum ")
    told: dict[str, Any] = json.loads(back.stdout)
    assert (back.returncode, back.stderr) == (0, "")
    assert told == {
        "from": redis_url,
        "to": f"embedded:{tmp_path / 'b'}",
        "queues": 2,
        "messages": MESSAGES,
        "counts": {"event": 2_500, "group": 1, "leased": 100, "ready": 2_400, "worklist": 1},
        "checksum": last.removeprefix("the source and the target are identical: checksum "),
        "resumed": False,
    }


def test_a_broker_goes_on_with_the_copy(redis_url: str, tmp_path: Path) -> None:
    with start_broker(tmp_path / "one") as broker, broker.connect() as client:
        job = client.call("ADDJOB", "mail", "hello", 0)
        event = client.call("QADD", "news", 60, "read all about it")
        assert client.call("GETJOB", "FROM", "mail") == [[b"mail", job, b"hello"]]
        assert client.call("QGET", "news", "g", "EX", 60) == [event, b"read all about it"]
        broker.stop()

    assert run(tmp_path / "one" / "data", redis_url).returncode == 0

    with (
        start_broker(tmp_path / "two", "--store", redis_url) as broker,
        broker.connect() as client,
    ):
        assert client.call("ACKJOB", job) == 1
        assert client.call("QACK", "news", "g", event) == 1
        assert client.call("QGET", "news", "other") == [event, b"read all about it"]


def test_a_copy_into_a_cluster(source: FolderPlace, redis_cluster_url: str) -> None:
    done = run("--json", source.folder, redis_cluster_url)

    assert done.returncode == 0, done.stderr
    with closing(RedisPlace(redis_cluster_url).open(ManualClock())) as store:
        ids = [it.message_id for it in store.run(Take(JOBS, [b"mail"], 50))]
        assert store.run(Finish(JOBS, ids)) == [True] * 50


def test_cut_off_it_fails_and_the_same_command_goes_on(source: FolderPlace, tmp_path: Path) -> None:
    with RedisServer() as server, closing(CuttingProxy("127.0.0.1", server.port)) as proxy:
        proxy.cut(to_server=300_000)

        broken = run(source.folder, proxy.url)

        assert broken.returncode == 1
        assert broken.stderr.startswith("quinque: ")
        assert server.ask("EXISTS", "quinque:copy") == 1
        # No broker starts on a half of it.
        with pytest.raises(BrokerDidNotStart, match="contains an unfinished copy of embedded:"):
            start_broker(tmp_path, "--store", server.url)

        proxy.go_on()
        done = run("--json", source.folder, proxy.url)

        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["resumed"] is True
        assert server.ask("EXISTS", "quinque:copy") == 0


def test_what_was_changed_behind_its_back_is_named_and_the_target_stays_marked(
    source: FolderPlace, redis_server: RedisServer
) -> None:
    redis_server.flush()
    with (
        closing(open_folder(source.folder)) as reader,
        closing(RedisPlace(redis_server.url).writer()) as writer,
        pytest.raises(Interrupted),
    ):
        carry(reader, Stops(writer, 6, before_mark=False), ignore)
    with redis_server.client() as client:
        (key,) = client.scan_iter("quinque:{*}:worklist:mail")
        client.hset(key, "came", 7)

    done = run(source.folder, redis_server.url)

    assert done.returncode == 3
    assert done.stderr == (
        "quinque: queue mail differs: the number of messages is equal, but their contents differ\n"
    )
    assert redis_server.ask("EXISTS", "quinque:copy") == 1


def test_a_store_that_brokers_use_is_refused_unless_it_is_live(
    redis_url: str, tmp_path: Path
) -> None:
    with start_broker(tmp_path, "--store", redis_url) as broker, broker.connect() as client:
        client.call("ADDJOB", "mail", "hello", 0)
        use = f"{redis_url} is in use by 127.0.0.1:{broker.port}: stop these brokers first"

        assert refused(redis_url, tmp_path / "b") == use
        assert run("--live", redis_url, tmp_path / "b").returncode == 0


def test_what_cannot_be_copied_is_refused_in_one_line(source: FolderPlace, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"

    assert refused(nothing, tmp_path / "b") == f"{nothing} contains no journal"
    assert not nothing.exists()
    assert refused(source.folder, f"embedded:{source.folder}") == (
        f"the source and the target are the same store: {source.folder}"
    )
    assert refused(source.folder, "http://localhost").startswith("store: this is not the URL")
    assert refused(source.folder, "redis:/localhost") == (
        "redis:/localhost is neither a directory nor the URL of a store"
    )
    assert run("--json", nothing, tmp_path / "b").stdout == (
        json.dumps({"error": f"{nothing} contains no journal", "exit_code": 2}) + "\n"
    )


def test_a_target_that_has_the_queue_is_refused(source: FolderPlace, tmp_path: Path) -> None:
    assert run(source.folder, tmp_path / "b").returncode == 0

    why = refused(source.folder, tmp_path / "b")

    assert why == (
        f"embedded:{tmp_path / 'b'} already has a queue mail: remove it there, or use another "
        "target"
    )


def test_a_folder_in_use_and_a_redis_that_is_not_there_are_failures(
    source: FolderPlace, tmp_path: Path
) -> None:
    with closing(source.open(ManualClock())):
        in_use = run(source.folder, tmp_path / "b")
    with RedisServer() as server:
        url = server.url
    not_there = run(source.folder, url)

    assert (in_use.returncode, not_there.returncode) == (1, 1)
    assert "is in use by the process" in in_use.stderr
    assert "; stop it, or use another directory" in in_use.stderr
    assert not_there.stderr.count("\n") == 1


def test_at_a_terminal_there_is_a_bar(source: FolderPlace, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, source.folder, tmp_path / "b"],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(theirs)
        said = b""
        while part := _read(ours):
            said += part
    os.close(ours)

    assert process.returncode == 0, said
    assert b"5000/5000" in said
    assert "━".encode() in said
    assert b"the source and the target are identical" in said


def _read(file: int) -> bytes:
    """What was written at the other end; nothing when it is closed."""
    try:
        return os.read(file, 1 << 16)
    except OSError:
        return b""
