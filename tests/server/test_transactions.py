"""MULTI, EXEC and DISCARD: what is queued, what is refused, and what runs together."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quinque.dialects.command import Command, no_queues
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE, TUBES
from quinque.model.ops import Count
from quinque.model.work_ops import LookAt
from quinque.server.connection import Connection
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.pending import Pending
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal, request
from tests.server.rights import login, user_flags
from tests.servers import stores
from tests.servers.redis_server import RedisServer
from tests.transcripts.stage import Stage

ABORTED = Refusal("EXECABORT Transaction discarded because of previous errors.")
Words = tuple[str | int | bytes, ...]


@pytest.fixture(params=stores.ALL)
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker that knows users, on each kind of store."""
    flags = stores.store_flags(request, request.param)
    with start_broker(tmp_path, *flags, *user_flags(tmp_path)) as running:
        yield running


def queue_all(client: Client, *requests: Words) -> None:
    """MULTI, and all of these are queued."""
    assert client.call("MULTI") == b"OK"
    for words in requests:
        assert client.call(*words) == b"QUEUED"


# -- rights -----------------------------------------------------------------------------------


def test_a_command_that_its_user_may_not_run_is_refused_when_it_is_queued(
    guarded: RunningBroker,
) -> None:
    with login(guarded, "boss") as boss, login(guarded, "packer") as packer:
        others = boss.call("ADDJOB", "secret", "x", 0)
        for refused in (("ADDJOB", "secret", "x", 0), ("ACKJOB", others), ("RQ.POP", "secret")):
            queue_all(packer, ("ADDJOB", "orders.1", "x", 0))

            assert packer.call(*refused).text.startswith("NOPERM User packer has no permissions")
            assert packer.call("EXEC") == ABORTED

        assert boss.call("QLEN", "orders.1") == 0
        assert boss.call("QLEN", "secret") == 1


@pytest.mark.parametrize("words", [("GETJOB", "NOHANG", "MATCH", "*"), ("LIFECYCLE.READ", 0, 1)])
def test_a_right_that_depends_on_the_arguments_is_checked_when_the_command_is_queued(
    guarded: RunningBroker, words: Words
) -> None:
    with login(guarded, "packer") as packer:
        alone = packer.call(*words)
        queue_all(packer, ("ADDJOB", "orders.1", "x", 0))

        assert alone.text.endswith(" requires a user who can access every queue")
        assert packer.call(*words) == alone
        assert packer.call("EXEC") == ABORTED
        assert packer.call("QLEN", "orders.1") == 0


@pytest.mark.parametrize("words", [("EXEC", "x"), ("DISCARD", "x"), ("MULTI", "x"), ("RESET", "x")])
def test_a_wrong_number_of_arguments_spoils_the_transaction(client: Client, words: Words) -> None:
    queue_all(client, ("ADDJOB", "spoiled", "x", 0))
    name = str(words[0]).lower()

    refused = client.call(*words)

    assert refused == Refusal(f"ERR wrong number of arguments for '{name}' command")
    assert client.call("EXEC") == ABORTED
    assert client.call("QLEN", "spoiled") == 0


@pytest.mark.parametrize("words", [("WATCH", "q"), ("MULTI",)])
def test_watch_and_a_second_multi_are_refused_and_spoil_nothing(
    client: Client, words: Words
) -> None:
    queue_all(client, ("PING",))

    assert isinstance(client.call(*words), Refusal)

    assert client.call("EXEC") == [b"PONG"]


def test_other_mistakes_in_arguments_are_told_by_exec(guarded: RunningBroker) -> None:
    with login(guarded, "packer") as packer:
        mistakes: list[Words] = [
            ("PING", "a", "b"),
            ("WQ.ADD", "orders.w", "id", "data", "id2"),
            ("GETJOB", "COUNT", "x", "FROM", "orders.1"),
        ]
        queue_all(packer, ("ADDJOB", "orders.1", "x", 0), *mistakes)

        added, *refused = packer.call("EXEC")

        assert added.startswith(b"D-")
        assert [type(each) for each in refused] == [Refusal] * 3


def test_a_user_with_few_rights_runs_what_it_may(guarded: RunningBroker) -> None:
    with login(guarded, "packer") as packer:
        own = packer.call("ADDJOB", "orders.1", "x", 0)
        queue_all(packer, ("SHOW", own), ("ADDJOB", "orders.1", "y", 0), ("ACKJOB", own))

        shown, added, acked = packer.call("EXEC")

        assert own in shown
        assert added.startswith(b"D-")
        assert acked == 1


def test_a_client_that_has_not_authenticated_begins_no_transaction(guarded: RunningBroker) -> None:
    no_auth = Refusal("NOAUTH Authentication required.")
    with guarded.connect() as client:
        assert client.call("MULTI") == no_auth
        assert client.call("ADDJOB", "q", "x", 0) == no_auth
        assert client.call("EXEC") == no_auth


# -- limits -----------------------------------------------------------------------------------


def test_more_commands_or_bytes_than_allowed_spoil_the_transaction(tmp_path: Path) -> None:
    flags = ("--transaction-max-commands", "3", "--transaction-max-size", "2kb")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        queue_all(client, ("PING",), ("PING",), ("PING",))

        too_many = client.call("PING")

        said = "ERR a transaction can have at most 3 commands (transaction-max-commands)"
        assert too_many == Refusal(said)
        assert client.call("EXEC") == ABORTED

        queue_all(client, ("ADDJOB", "q", "x", 0))
        assert client.call("ECHO", "x" * 2048) == Refusal(
            "ERR a transaction can have at most 2048 bytes (transaction-max-size)"
        )
        assert client.call("EXEC") == ABORTED
        assert client.call("QLEN", "q") == 0


@pytest.mark.parametrize("command", ["RENAME", "RENAMENX"])
def test_more_renamed_queues_than_allowed_spoil_the_transaction(
    client: Client, queue: str, command: str
) -> None:
    """Each may be large, and is renamed while nobody else is served."""
    client.call("RQ.PUSH", f"{queue}0", "x")
    renames = [(command, f"{queue}{at}", f"{queue}{at + 1}") for at in range(11)]
    queue_all(client, *renames[:10])
    assert client.call("EXEC")[:10] == [b"OK" if command == "RENAME" else 1] * 10
    back = [(command, new, old) for _, old, new in reversed(renames)]
    queue_all(client, *back[1:11])

    refused = client.call(*back[0])

    assert refused == Refusal("ERR a transaction can rename at most 10 queues")
    assert client.call("EXEC") == ABORTED
    assert client.call("EXISTS", f"{queue}10") == 1


def test_replies_that_are_too_large_together_end_the_transaction_and_not_the_broker(
    tmp_path: Path,
) -> None:
    flags = ("--output-buffer-limit", "1mb")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        queue_all(client, *[("ECHO", "x" * 400_000)] * 4, ("ADDJOB", "q", "x", 0))

        *echoed, fourth, added = client.call("EXEC")

        assert [len(each) for each in echoed] == [400_000] * 3
        over = "ERR the replies of this EXEC are larger than 1048576 bytes (output-buffer-limit)"
        assert fourth == added == Refusal(f"{over}: this command was not run")
        assert client.call("QLEN", "q") == 0


@pytest.mark.parametrize("kind", stores.ALL)
def test_large_replies_of_a_transaction_do_not_cut_off_a_client_that_had_no_time_to_read(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    flags = (*stores.store_flags(request, kind), "--output-buffer-limit", "1mb")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        body = b"x" * (8 << 20)  # more than the system keeps for a client that does not read
        client.call("RQ.PUSH", "q", body, "second", "third")
        queue_all(client, *[("RQ.POP", "q")] * 3)

        large, *rest = client.call("EXEC")

        over = "ERR the replies of this EXEC are larger than 1048576 bytes (output-buffer-limit)"
        assert rest == [Refusal(f"{over}: this command was not run")] * 2
        assert large[0][-1] == body
        assert client.call("RQ.INFO", "q") == [b"undelivered", 2, b"delivered", 1]
        assert client.call("RQ.PUSH", "one", body)
        assert client.call("RQ.POP", "one")[0][-1] == body


def test_what_is_queued_is_shown_and_counted_once(client: Client, other: Client) -> None:
    number = client.call("CLIENT", "ID")
    queue_all(client, ("ECHO", "x" * 1000), ("ECHO", "y"))

    line = other.call("CLIENT", "LIST", "ID", number).decode()
    calls = _calls(other)
    client.call("EXEC")

    assert " flags=x " in line
    assert " multi=2 " in line
    assert int(re.findall(r" multi-mem=(\d+)", line)[0]) > 1000
    assert " multi=-1 " in other.call("CLIENT", "LIST", "ID", number).decode()
    assert _calls(other) == calls + 2


def _calls(client: Client) -> int:
    text = client.call("INFO", "commandstats").decode()
    return sum(map(int, re.findall(r"^cmdstat_echo:calls=(\d+)", text, re.MULTILINE)))


# -- beside other commands --------------------------------------------------------------------


@pytest.mark.parametrize("kind", stores.ALL)
def test_replies_that_are_not_wanted_are_left_out(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    flags = stores.store_flags(request, kind)
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        transaction: list[Words] = [("MULTI",), *[("ADDJOB", "q", "x", 0)] * 3, ("EXEC",)]
        client.send("CLIENT", "REPLY", "OFF")
        for words in transaction:
            client.send(*words)
        client.send("CLIENT", "REPLY", "ON")
        client.send("CLIENT", "REPLY", "SKIP")  # that of MULTI
        for words in transaction:
            client.send(*words)
        client.send("QLEN", "q")

        on, *queued, executed, length = client.read_many(6)

        assert on == b"+OK\r\n"
        assert queued == [b"+QUEUED\r\n"] * 3
        assert executed.startswith(b"*3\r\n+D-")
        assert length == b":6\r\n"


def test_a_monitor_sees_the_commands_when_they_are_run(client: Client, other: Client) -> None:
    other.call("MONITOR")
    queue_all(client, ("ECHO", "one"), ("ECHO", "two"))
    client.call("EXEC")

    lines = [other.read() for _ in range(4)]

    shown = [re.findall(rb'"([^"]*)"', line) for line in lines]
    assert shown == [[b"MULTI"], [b"ECHO", b"one"], [b"ECHO", b"two"], [b"EXEC"]]
    other.send("MULTI")
    assert other.read_many(2)[1] == (
        b"-ERR MULTI is not allowed on a connection that uses MONITOR\r\n"
    )


def test_a_pause_of_writes_holds_a_transaction_that_writes(client: Client, other: Client) -> None:
    queue_all(client, ("ADDJOB", "paused", "x", 0))
    other.call("CLIENT", "PAUSE", 60_000, "WRITE")
    client.send("EXEC")
    queue_all(other, ("QLEN", "paused"))

    before = other.call("EXEC")
    other.call("CLIENT", "UNPAUSE")

    assert before == [0]
    assert len(client.value()) == 1


@pytest.mark.parametrize("words", [("DEBUG", "FLUSHALL"), ("CLUSTER", "RESET")])
def test_a_pause_of_writes_holds_commands_that_remove_all_jobs(
    client: Client, other: Client, words: Words
) -> None:
    client.call("ADDJOB", "paused.jobs", "x", 0)
    with_exec = [("MULTI",), words, ("EXEC",)]
    for requests in ([words], with_exec):
        client.call("ADDJOB", "paused.jobs", "x", 0)
        other.call("CLIENT", "PAUSE", 60_000, "WRITE")
        for words in requests:
            client.send(*words)

        before = other.call("QLEN", "paused.jobs")
        other.call("CLIENT", "UNPAUSE")
        client.read_many(len(requests))

        assert before > 0
        assert other.call("QLEN", "paused.jobs") == 0


def test_quit_and_reset_end_a_transaction(client: Client, other: Client) -> None:
    queue_all(client, ("ADDJOB", "quit", "x", 0))
    assert client.call("RESET") == b"RESET"
    assert client.call("EXEC") == Refusal("ERR EXEC without MULTI")
    queue_all(client, ("ADDJOB", "quit", "x", 0))

    assert client.call("QUIT") == b"OK"

    assert client.read_to_end() == b""
    assert other.call("QLEN", "quit") == 0


def test_a_client_that_leaves_before_exec_changes_nothing(
    broker: RunningBroker, client: Client
) -> None:
    with broker.connect() as gone:
        queue_all(gone, ("ADDJOB", "left", "x", 0))
        number = gone.call("CLIENT", "ID")  # queued

    assert number == b"QUEUED"
    wait_until(lambda: b" flags=x " not in client.call("CLIENT", "LIST"), "it is gone")
    assert client.call("QLEN", "left") == 0


def test_other_requests_that_could_block_reply_at_once_in_a_transaction(
    guarded: RunningBroker,
) -> None:
    with login(guarded, "boss") as boss:
        job = boss.call("ADDJOB", "{t}jobs", "x", 0)
        boss.call("CLAIM.OPEN", "{t}claimed", "s")
        boss.call("TUBE.CREATE", "{t}full", "limfifottl", "CAPACITY", 1)
        boss.call("TUBE.PUT", "{t}full", "first")
        queue_all(
            boss,
            ("WAITJOB", 60_000, job),
            ("CLAIM.FILL", "{t}claimed", "s", 1, 1, "COUNT", 1, "TIMEOUT", 60_000),
            ("TUBE.PUT", "{t}full", "second", "TIMEOUT", 60),
            ("QREGISTER", "{t}events"),
            ("QNOTIFY", 60),
            ("RQ.POP", "BLOCK", 60_000, "{t}elements"),
        )

        assert boss.call("EXEC") == [None, None, None, b"OK", None, []]


# -- together ---------------------------------------------------------------------------------


def test_no_other_client_comes_between_the_commands_of_a_transaction(
    broker: RunningBroker, client: Client
) -> None:
    is_over = threading.Event()
    got: list[object] = []

    def take() -> None:
        with broker.connect() as thief:
            while not is_over.is_set():
                got.append(thief.call("GETJOB", "NOHANG", "FROM", "between"))

    thread = threading.Thread(target=take)
    thread.start()
    try:
        for _ in range(300):
            queue_all(client, ("ADDJOB", "between", "x", 0), ("GETJOB", "FROM", "between"))
            added, taken = client.call("EXEC")
            assert taken == [[b"between", added, b"x"]]
    finally:
        is_over.set()
        thread.join()
    assert got
    assert set(map(str, got)) == {"None"}


def test_queues_is_refused_in_a_transaction(guarded: RunningBroker) -> None:
    with login(guarded, "boss") as boss:
        queue_all(boss, ("ADDJOB", "q", "x", 0))

        assert boss.call("QUEUES") == Refusal("ERR Command not allowed inside a transaction")

        assert boss.call("EXEC") == ABORTED
        assert boss.call("QLEN", "q") == 0


def test_a_command_that_takes_its_time_is_refused_by_exec_and_parts_nothing(
    tmp_path: Path,
) -> None:
    def take_time(connection: Connection, argv: list[bytes]) -> Pending:
        return Pending()

    with Stage(tmp_path, 2) as stage:
        row = Command("TAKETIME", "", "", 1, run=take_time, queues=no_queues)
        stage.broker.dispatch.commands["TAKETIME"] = row
        add, take = b"ADDJOB q x 0", b"GETJOB NOHANG FROM q"
        requests = (b"MULTI", add, b"TAKETIME", take, b"EXEC")
        stage.send("a", [words.split() for words in requests])
        stage.send("b", [take.split()])

        stage.go_on(1)

        replies = stage.replies()
        assert replies["b"] == b"*-1\r\n"
        _, executed = replies["a"].split(b"*3\r\n", 1)
        added, refused, taken = executed.split(b"\r\n", 2)
        assert added.startswith(b"+D-")
        assert refused == b"-ERR Command not allowed inside a transaction"
        assert added[1:] in taken


def test_a_command_that_takes_many_ticks_is_carried_out_at_once_by_exec(
    client: Client, other: Client
) -> None:
    client.call("DEBUG", "FLUSHALL")
    client.call("TUBE.CREATE", "in-parts", "fifo")
    for number in range(3_000):
        client.send_bytes(
            request("ADDJOB", "in-parts-jobs", number, 0)
            + request("ADDJOB", f"in-parts-{number}-end", "x", 0)
            + request("TUBE.PUT", "in-parts", number)
        )
    client.read_many(9_000)
    assert len(client.call("TUBE.TAKE", "in-parts", "COUNT", 3_000)) == 3_000
    patterns = [f"*-none-{number}-*" for number in range(98)]
    queue_all(
        client,
        ("TUBE.RELEASEALL", "in-parts"),
        ("GETJOB", "NOHANG", "MATCH", "*-2999-end", *patterns),
        ("QPURGE", "in-parts-jobs", "STATE", "queued"),
        # These are no reads, of which a busy machine would refuse some.
        ("QPURGE", "in-parts-jobs", "STATE", "queued"),
        ("DEBUG", "FLUSHALL"),
        ("QPURGE", "in-parts-1-end"),
    )
    other.send("ADDJOB", "in-parts-jobs", "later", 0)

    released, [job], purged, left, flushed, gone = client.call("EXEC")

    assert (released, job[0], flushed) == (3_000, b"in-parts-2999-end", b"OK")
    # Whenever the other client's job came: not between these two.
    assert purged in (3_000, 3_001)
    assert (left, gone) == (0, 0)
    other.value()


def test_what_follows_in_a_transaction_is_not_run_when_redis_fails(tmp_path: Path) -> None:
    with RedisServer() as server:
        flags = ("--store", server.url, "--store-timeout", "200ms")
        with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
            client.call("ADDJOB", "q", "x", 0)
            queue_all(client, *[("ADDJOB", "q", "x", 0)] * 100)
            server.pause()

            first, *rest = client.call("EXEC")
            server.go_on()

            assert first.text.startswith(("NOTDONE ", "UNAVAILABLE "))
            assert set(rest) == {Refusal("NOTDONE the store failed earlier in this EXEC")}
            wait_until(lambda: client.call("QLEN", "q") in (1, 2), "the store answers")


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_crash_at_any_byte_keeps_all_of_a_transaction_or_nothing(
    tmp_path: Path, is_cut: bool
) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    with start_broker(folder) as broker, broker.connect() as client:
        client.call("TUBE.CREATE", "t", "fifo")
        client.call("ADDJOB", "taken", "x", 0)
        [journal] = _journals(folder)
        before = _written(client)
        queue_all(
            client,
            ("ADDJOB", "j", "x", 0),
            ("GETJOB", "FROM", "taken"),
            ("QADD", "e", 600, "x"),
            ("RQ.PUSH", "r", "x"),
            ("WQ.ADD", "i", "id", "x"),
            ("TUBE.PUT", "t", "x"),
        )
        assert len(client.call("EXEC")) == 6
        after = _written(client)
        broker.kill()
    data = journal.read_bytes()[:after]

    seen = set()
    for cut in range(before, after + 1):
        ruin = data[:cut] if is_cut else data[:cut] + bytes(after - cut)
        seen.add((_looks(tmp_path / "cut", journal, ruin), cut == after))

    # Zeros at the end of a batch may be what was there.
    assert {looks for looks, _ in seen} == {(0, 1, 0, 0, 0, 0), (1, 0, 1, 1, 1, 1)}
    if is_cut:
        assert len(seen) == 2


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.journal"))


def _written(client: Client) -> int:
    text = client.call("INFO", "persistence").decode()
    return int(re.findall(r"aof_current_size:(\d+)", text)[0])


def _looks(folder: Path, journal: Path, data: bytes) -> tuple[int, ...]:
    """How many wait in each queue, in a store whose journal is this."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(journal.parent, folder)
    (folder / journal.name).write_bytes(data)
    store = EmbeddedStore(folder)
    try:
        places = ((JOBS, b"j"), (JOBS, b"taken"), (RELIABLE, b"r"), (ITEMS, b"i"), (TUBES, b"t"))
        views = [store.run(LookAt(family, name)) for family, name in places]
        [events] = store.run(Count(EVENTS, [b"e"]))
        return *(0 if view is None else view.ready for view in views), events.total
    finally:
        store.close()
