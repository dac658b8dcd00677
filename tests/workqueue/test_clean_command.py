"""quinque clean, as users run it: what it says, how it ends, and that it is done by then."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

from quinque.cli.clean import read_prefixes
from quinque.cli.main import main
from quinque.cli.redis_client import open_client
from quinque.errors import BadSetting
from quinque.workqueue import Item
from tests.servers.patience import wait_until
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.workqueue.stage import Picture, Place, Worker, abandon, sync_worker

COMMAND = [sys.executable, "-m", "quinque", "clean"]


def run(*words: str, typed: str = "") -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["clean", *words], input=typed)


def damaged(place: Place, prefix: str) -> Worker:
    """Two items wait, one was abandoned, one is in no list; and an id has no data."""
    worker = sync_worker(place.raw, prefix)
    for id in "abcd":
        worker.add_item(Item("x", id=id))
    worker.lease()
    abandon(place.raw, prefix)
    place.raw.lrem(f"{prefix}:queue", 0, "b")
    place.raw.lpush(f"{prefix}:queue", "ghost")
    return worker


def test_one_item_is_not_called_items(place: Place, prefix: str, redis_server: RedisServer) -> None:
    sync_worker(place.raw, prefix).add_item(Item("x"))

    done = run(prefix, "--redis", redis_server.url, "--once")

    told = "deep clean, checked 1 item, returned 0, 0 without data, 0 duplicates"
    assert done.stdout == f"{prefix}: {told}\n"


def test_a_right_that_is_missing_is_named(redis_server: RedisServer) -> None:
    rules = ("on", "nopass", "resetkeys", "~other:*", "+@all")
    redis_server.ask("ACL", "SETUSER", "cleaner", "reset", *rules)
    url = f"{redis_server.url}?username=cleaner&password=x"

    done = run("mails", "--redis", url, "--once")

    assert done.exit_code == 1
    assert done.stderr == (
        "quinque: mails: the Redis user lacks the right ~mails:*; grant it with ACL SETUSER in "
        "Redis\n"
    )


def test_once_cleans_every_queue_and_says_what_it_did(
    place: Place, prefix: str, redis_server: RedisServer, tmp_path: Path
) -> None:
    other = prefix + "2"
    damaged(place, prefix)
    damaged(place, other)
    file = tmp_path / "queues"
    file.write_text(f"# those of the mail\n\n{other}\n{prefix}\n")

    done = run(prefix, "--file", str(file), "--redis", redis_server.url, "--once")

    assert done.exit_code == 0, done.output
    told = "deep clean, checked 4 items, returned 2, 1 without data, 0 duplicates"
    assert done.stdout == f"{prefix}: {told}\n{other}: {told}\n"
    for name in (prefix, other):
        assert sorted(Picture(place.raw, name).waiting) == ["a", "b", "c", "d"]


def test_without_deep_cleaning_it_is_the_light_one(
    place: Place, prefix: str, redis_server: RedisServer
) -> None:
    damaged(place, prefix)
    words = ("--redis", redis_server.url, "--once", "--deep-every", "0", "--json", "--file", "-")

    done = run(*words, typed=f"{prefix}\n")

    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told.pop("seconds") >= 0
    assert told == {
        "prefix": prefix,
        "clean": "light",
        "dry_run": False,
        "finished": True,
        "looked": 1,
        "returned": 1,
        "ghosts": 0,
        "duplicates": 0,
    }


def test_a_dry_run_changes_nothing_and_says_by_its_code_whether_there_is_something(
    place: Place, prefix: str, redis_server: RedisServer
) -> None:
    worker = damaged(place, prefix)
    before = vars(Picture(place.raw, prefix))
    words = (prefix, "--redis", redis_server.url, "--once", "--dry-run")

    found = run(*words)

    assert found.exit_code == 3
    assert (
        "deep clean, checked 4 items, would return 2, 1 without data, 0 duplicates" in found.stdout
    )
    assert vars(Picture(place.raw, prefix)) == before
    worker.deep_clean()
    assert run(*words).exit_code == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no queue to clean"),
        (("--file", "/nowhere"), "/nowhere: No such file"),
        (("p", "--redis", "http://x"), "not the URL of a Redis"),
        (("p", "--light-every", "0"), "must be greater than 0"),
        (("p", "--deep-every", "often"), "'often' is not a time"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], why: str) -> None:
    done = run(*words)

    assert done.exit_code == 2
    assert why in done.stderr


def test_a_file_of_prefixes_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prefixes"
    file.write_bytes(b"caf\xe9\n")

    done = run("--file", str(file))

    assert (done.exit_code, f"{file} is not UTF-8 text" in done.stderr) == (2, True)


def test_a_closed_stdin_has_no_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it then

    with pytest.raises(BadSetting, match="stdin is closed"):
        read_prefixes((), "-")


def test_a_redis_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    done = run("p", "--once", "--redis", f"unix://{tmp_path}/nobody")

    assert done.exit_code == 1
    assert "quinque: p: " in done.stderr


def test_a_queue_whose_keys_are_something_else_does_not_stop_the_others(
    place: Place, prefix: str, redis_server: RedisServer
) -> None:
    place.raw.set(f"{prefix}:queue", "text")
    damaged(place, prefix + "2")

    done = run(prefix, prefix + "2", "--once", "--redis", redis_server.url)

    assert done.exit_code == 1
    assert f"{prefix}: WRONGTYPE" in done.stderr
    assert f"{prefix}2: deep clean, checked 4 items, returned 2" in done.stdout
    place.raw.delete(f"{prefix}:queue")


def test_a_cluster_is_cleaned_and_wants_a_hash_tag(redis_cluster: RedisCluster) -> None:
    with redis_cluster.client() as client:
        client.set("{lost}:item:1", "x")

        done = run("{lost}", "--once", "--redis", redis_cluster.url)

        assert done.exit_code == 0, done.output
        assert client.lrange("{lost}:queue", 0, -1) == [b"1"]
    refused = run("lost", "--once", "--redis", redis_cluster.url)
    assert refused.exit_code == 2
    assert "hash tag: use {lost}" in refused.stderr


def test_it_goes_on_until_a_signal_and_light_cleaning_follows_the_leases(
    place: Place, prefix: str, redis_server: RedisServer
) -> None:
    worker = damaged(place, prefix)
    words = [*COMMAND, prefix, "--redis", redis_server.url, "--json", "--light-every", "50ms"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told: list[dict[str, Any]] = [json.loads(process.stdout.readline()) for _ in range(2)]

    assert [line["clean"] for line in told] == ["light", "deep"]
    assert [line["returned"] for line in told] == [1, 1]
    worker.lease()
    abandon(place.raw, prefix)
    wait_until(lambda: len(Picture(place.raw, prefix).waiting) == 4, "it was cleaned again")

    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    lines = [json.loads(line) for line in rest.splitlines()]
    assert {line["clean"] for line in lines} == {"light"}
    assert sum(line["returned"] for line in lines) == 1


def test_how_long_leases_last_is_seen(place: Place, prefix: str) -> None:
    worker = sync_worker(place.raw, prefix)
    for _ in range(3):
        worker.add_item(Item("x"))
    assert worker.queue.shortest_lease_s(worker.db) is None
    for lease_secs in (500, 20, 90):
        worker.lease(lease_secs)

    assert 18 < worker.queue.shortest_lease_s(worker.db) <= 20


def test_at_a_terminal_deep_cleaning_shows_how_far_it_is(
    place: Place, prefix: str, redis_server: RedisServer
) -> None:
    damaged(place, prefix)
    ours, theirs = pty.openpty()
    words = [*COMMAND, prefix, "--redis", redis_server.url, "--once"]

    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=False)

    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "items" in shown or "dropping" in shown
    assert b"returned 2" in done.stdout


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://user:secret@host:7000/2", ("host", 7000, 2, "user", "secret")),
        ("redis+sentinel://user:secret@one,two:26380/mail/2", (None, None, 2, "user", "secret")),
        ("rediss+sentinel://one/mail?sentinel_password=x", (None, None, 0, None, None)),
    ],
)
def test_a_client_is_made_of_the_url_of_a_store(url: str, said: tuple[object, ...]) -> None:
    with open_client(url) as client:
        options = client.get_connection_kwargs()

    names = ("host", "port", "db", "username", "password")
    assert tuple(options.get(name) for name in names) == said
