"""AUTH, and what each user may do, over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.broker import BrokerDidNotStart, RunningBroker, start_broker
from tests.server.iproto import AUTH, LISTEN, IprotoClient, packet
from tests.server.resp import Client, Refusal, request
from tests.server.rights import user_flags
from tests.servers.patience import wait_until
from tests.transcripts.stage import Stage

USERS = """
[users.reader]
password = "r"
rights = ["read"]

[users.writer]
password = "w"
rights = ["write"]

[users.boss]
password = "b"
rights = ["read", "write", "admin"]

[users.orders]
password = "o"
queues = ["orders.*"]

[users.adder]
password = "a"
commands = ["QADD"]

[users.careful]
password = "c"
commands = ["-QFLUSH", "-CLIENT|SETNAME"]

[users.families]
password = "f"
families = ["events", "jobs", "reliable", "items", "tubes"]

[users.eventful]
password = "e"
families = ["events"]

[users.stranger]
password = "s"
families = []
"""
NOAUTH = Refusal("NOAUTH Authentication required.")
WRONGPASS = Refusal("WRONGPASS invalid username-password pair or user is disabled.")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with named users and no default one."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "users.toml").write_text(USERS)
    with start_broker(folder, *LISTEN, "--users", str(folder / "users.toml")) as running:
        yield running


def login(broker: RunningBroker, name: str) -> Client:
    client = broker.connect()
    assert client.call("AUTH", name, name[0]) == b"OK"
    return client


def refused(name: str, command: str, why: str = "") -> Refusal:
    return Refusal(f"NOPERM User {name} has no permissions to run the '{command}' command{why}")


# -- who someone is ---------------------------------------------------------------------------


def test_guesses_are_logged_and_slowed(guarded: RunningBroker) -> None:
    with guarded.connect() as client:
        for number in range(1_000):
            client.send("AUTH", "guessed", f"guess{number}")
        replies = [client.value() for _ in range(1_000)]

        assert replies[:100] == [WRONGPASS] * 100
        assert replies.count(WRONGPASS) < 500
        assert replies[-1].text.startswith("ERR too many wrong passwords for user 'guessed' from 1")
        assert client.call("AUTH", "boss", "b") == b"OK"
    wait_until(lambda: any("wrong password for user 'guessed'" in it for it in guarded.log), "")


def test_guesses_over_both_protocols_are_counted_together(guarded: RunningBroker) -> None:
    def guess(sync: int) -> bytes:
        return packet(AUTH, sync, {0x23: "scrambled", 0x21: ["chap-sha1", b"x" * 20]})

    with IprotoClient(guarded) as tarantool, guarded.connect() as client:
        tarantool.send(*map(guess, range(1_000)))
        errors = [tarantool.read() for _ in range(1_000)]
        client.send_bytes(request("AUTH", "scrambled", "no") * 1_000)
        replies = [client.value() for _ in range(1_000)]

        assert [reply.error for reply in errors[:100]] == [47] * 100
        assert [reply.error for reply in errors].count(47) < 500
        assert errors[-1].text.startswith("too many wrong passwords for user 'scrambled' from 1")
        assert replies.count(WRONGPASS) < 100
        assert not tarantool.login("boss", "b").error


def test_who_has_not_said_who_it_is_may_do_nothing(guarded: RunningBroker) -> None:
    with guarded.connect() as client:
        for words in (("PING",), ("QADD", "q", "60", "x"), ("CLIENT", "ID"), ("COMMAND",)):
            assert client.call(*words) == NOAUTH
        assert client.call("QUIT") == b"OK"


def test_arguments_are_not_looked_at_before_the_user_is(guarded: RunningBroker) -> None:
    with guarded.connect() as client:
        assert client.call("QADD", "", "not a number", "x") == NOAUTH


def test_a_wrong_name_and_a_wrong_password_look_alike(guarded: RunningBroker) -> None:
    with guarded.connect() as client:
        assert client.call("AUTH", "reader", "w") == WRONGPASS
        assert client.call("AUTH", "nobody", "r") == WRONGPASS
        assert client.call("AUTH", "default", "") == WRONGPASS
        assert client.call("AUTH", "r") == WRONGPASS
        assert client.call("PING") == NOAUTH


def test_a_failed_login_leaves_one_who_one_was(guarded: RunningBroker) -> None:
    with login(guarded, "reader") as client:
        assert client.call("AUTH", "boss", "r") == WRONGPASS
        assert b" user=reader " in client.call("CLIENT", "INFO")


def test_hello_needs_a_user_and_can_bring_one(guarded: RunningBroker) -> None:
    with guarded.connect() as client:
        assert client.call("HELLO") == NOAUTH, "Disque's, which tells of the nodes"
        for words in (("HELLO", "3"), ("HELLO", "3", "SETNAME", "x")):
            assert client.call(*words).text.startswith(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise"
                " the HELLO <proto> AUTH <user> <pass> option can be used"
            )
        assert client.call("HELLO", 3, "AUTH", "reader", "nope") == WRONGPASS
        assert client.call("HELLO", 3, "AUTH", "reader", "r")[b"proto"] == 3
        assert client.call("PING") == b"PONG"


def test_reset_makes_one_nobody_again(guarded: RunningBroker) -> None:
    with login(guarded, "boss") as client:
        assert client.call("RESET") == b"RESET"
        assert client.call("PING") == NOAUTH


def test_a_password_alone_is_that_of_the_default_user(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, "--requirepass", "secret") as broker,
        broker.connect() as client,
        broker.connect() as other,
    ):
        assert client.call("PING") == NOAUTH
        assert client.call("AUTH", "secrets") == WRONGPASS
        assert client.call("AUTH", "secret") == b"OK"
        assert other.call("AUTH", "default", "secret") == b"OK"

        client.call("CONFIG", "SET", "requirepass", "changed")

        assert other.call("PING") == b"PONG", "who is in stays in"
        assert other.call("RESET") == b"RESET"
        assert other.call("AUTH", "secret") == WRONGPASS
        assert other.call("AUTH", "changed") == b"OK"


# -- what someone may do ----------------------------------------------------------------------


def test_rights_part_reading_writing_and_looking_after_the_broker(guarded: RunningBroker) -> None:
    with login(guarded, "reader") as client:
        assert client.call("QSTATUS", "q") == [[b"q", []]]
        why = ": it needs the right 'write'"
        assert client.call("QADD", "q", 60, "x") == refused("reader", "qadd", why)
        assert client.call("QGET", "q", "g") == refused("reader", "qget", why)
        why = ": it needs the right 'admin'"
        assert client.call("CONFIG", "GET", "*") == refused("reader", "config|get", why)
        assert client.call("CLIENT", "LIST") == refused("reader", "client|list", why)
        assert client.call("MONITOR") == refused("reader", "monitor", why)
        assert client.call("SHUTDOWN") == refused("reader", "shutdown", why)
    with login(guarded, "writer") as client:
        assert len(client.call("QADD", "q", 60, "x")) == 16
        assert client.call("QSTATUS") == refused("writer", "qstatus", ": it needs the right 'read'")
    with login(guarded, "boss") as client:
        assert client.call("CONFIG", "GET", "fsync") == [b"fsync", b"always"]
        assert client.call("QFLUSH", "q") == b"OK"


def test_everyone_may_look_after_the_own_connection(guarded: RunningBroker) -> None:
    with login(guarded, "stranger") as client:
        assert client.call("PING") == b"PONG"
        assert client.call("CLIENT", "SETNAME", "me") == b"OK"
        assert client.call("CLIENT", "ID") > 0
        assert client.call("COMMAND", "COUNT") > 20
        assert client.call("SELECT", 0) == b"OK"


def test_a_family_that_is_not_ones_own_is_refused(guarded: RunningBroker) -> None:
    with login(guarded, "stranger") as client:
        assert client.call("QADD", "q", 60, "x") == refused("stranger", "qadd")


def test_only_the_named_commands_may_be_run(guarded: RunningBroker) -> None:
    with login(guarded, "adder") as client:
        assert len(client.call("qadd", "only", 60, "x")) == 16
        assert client.call("QGET", "only", "g") == refused("adder", "qget")


def test_commands_may_be_taken_away_one_by_one(guarded: RunningBroker) -> None:
    with login(guarded, "careful") as client:
        assert len(client.call("QADD", "careful", 60, "x")) == 16
        assert client.call("QFLUSH", "careful") == refused("careful", "qflush")
        assert client.call("CLIENT", "SETNAME", "x") == refused("careful", "client|setname")
        assert client.call("CLIENT", "GETNAME") is None


def test_only_queues_of_the_patterns_may_be_touched(guarded: RunningBroker) -> None:
    with login(guarded, "orders") as client, login(guarded, "writer") as other:
        other.call("QADD", "secret", 60, "x")
        why = "NOPERM User orders has no permissions to access queue"

        assert len(client.call("QADD", "orders.new", 60, "x")) == 16
        assert client.call("QADD", "secret", 60, "x") == Refusal(f"{why} 'secret'")
        assert client.call("QGET", "secret", "g") == Refusal(f"{why} 'secret'")
        assert client.call("QNOTIFY", "g", 0, "orders.new", "b") == Refusal(f"{why} 'b'")
        assert client.call("QREGISTER", "orders.new", "c") == Refusal(f"{why} 'c'")
        assert client.call("QSTATUS", "d", "GROUPS", "g") == Refusal(f"{why} 'd'")
        assert client.call("MEMORY", "USAGE", "e") == Refusal(f"{why} 'e'")


def test_a_list_of_all_queues_has_only_those_the_user_may_see(guarded: RunningBroker) -> None:
    with login(guarded, "orders") as client, login(guarded, "writer") as other:
        other.call("QADD", "orders.seen", 60, "x")
        other.call("QADD", "unseen", 60, "x")

        listed = [row[0] for row in client.call("QSTATUS")]

        assert b"orders.seen" in listed
        assert b"unseen" not in listed
        assert not any(b"unseen" in line for line in client.call("QINFO"))


@pytest.mark.parametrize("words", [("DEBUG", "FLUSHALL"), ("CLUSTER", "RESET")])
def test_all_jobs_may_be_flushed_only_by_an_admin(
    guarded: RunningBroker, words: tuple[str, str]
) -> None:
    with login(guarded, "boss") as boss:
        job_id = boss.call("ADDJOB", "jobs", "x", 0)
        why = ": it needs the right 'admin'"
        with login(guarded, "reader") as client:
            assert client.call(*words) == refused("reader", "|".join(words).lower(), why)
        assert boss.call("SHOW", job_id) is not None

        assert boss.call(*words) == b"OK"

        assert boss.call("SHOW", job_id) is None


def test_a_user_of_every_family_may_ask_about_all_of_them(guarded: RunningBroker) -> None:
    with login(guarded, "families") as client:
        for words in (("QUEUES",), ("LIFECYCLE.SHARDS",), ("CLAIM.LIST",), ("STAGE.LIST",)):
            assert not isinstance(client.call(*words), Refusal), words


def test_the_counts_of_queues_have_only_the_families_of_the_user(guarded: RunningBroker) -> None:
    with login(guarded, "boss") as boss, login(guarded, "families") as all_families:
        boss.call("QADD", "counted", 60, "x")
        boss.call("RQ.PUSH", "uncounted", "x")
        with login(guarded, "eventful") as client:
            for reply in (client.call("QUEUES"), client.call("QUEUES", "counted", "uncounted")):
                names = {queue[1] for queue in reply[1]}
                assert b"counted" in names
                assert b"uncounted" not in names
        names = {queue[1] for queue in all_families.call("QUEUES")[1]}
        assert {b"counted", b"uncounted"} <= names


def test_everyone_may_ask_for_the_nodes_and_only_admins_change_them(guarded: RunningBroker) -> None:
    with login(guarded, "reader") as client:
        node_id = client.call("CLUSTER", "MYID")

        assert client.call("HELLO")[1] == node_id
        assert client.call("CLUSTER", "LEAVING", "yes") == refused(
            "reader", "cluster|leaving", ": it needs the right 'admin'"
        )
    with login(guarded, "stranger") as client:
        assert client.call("HELLO")[1] == node_id


def test_a_pipeline_has_each_of_its_requests_checked(guarded: RunningBroker) -> None:
    with login(guarded, "orders") as client:
        for number in range(30):
            client.send("QADD", "orders.many" if number % 3 else "other", 60, number)

        kinds = [reply[:1] for reply in client.read_many(30)]

        assert kinds == [b"$" if number % 3 else b"-" for number in range(30)]


def test_kill_can_choose_by_user(guarded: RunningBroker) -> None:
    with login(guarded, "boss") as client, login(guarded, "reader") as other:
        assert client.call("CLIENT", "KILL", "USER", "reader") >= 1
        assert other.read_to_end() == b""


# -- users that cannot be -----------------------------------------------------------------------


def test_a_user_with_an_unknown_command_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text(
        '[users.bob]\npassword = "x"\ncommands = ["-QFLUSHH", "CONFIG|GET"]\n'
    )

    with pytest.raises(BrokerDidNotStart) as caught:
        start_broker(tmp_path, "--users", str(tmp_path / "users.toml"))

    assert "users.bob: unknown command 'QFLUSHH'; did you mean QFLUSH?" in str(caught.value)
    assert "CONFIG" not in str(caught.value)


# -- requests that come together --------------------------------------------------------------

# Of each kind that the broker makes one operation of.
ALIKE = (
    ("QADD", "secret", "60", "x"),
    ("QGET", "secret", "g"),
    ("QACK", "secret", "g", "1-1"),
    ("QRPOP", "secret"),
    ("ADDJOB", "secret", "x", "0"),
    ("GETJOB", "NOHANG", "FROM", "secret"),
    ("RQ.PUSH", "secret", "x"),
    ("RQ.POP", "secret"),
    ("RQ.ACK", "secret", "x"),
    ("TUBE.PUT", "secret", "x"),
    ("TUBE.TAKE", "secret", "0"),
    ("TUBE.ACK", "secret", "0"),
    ("WQ.ADD", "secret", "id", "x"),
    ("WQ.LEASE", "secret", "60"),
)


@pytest.mark.parametrize("words", ALIKE, ids=lambda words: words[0])
def test_requests_of_a_user_of_other_queues_are_refused_beside_those_of_one_who_may(
    guarded: RunningBroker, words: tuple[str, ...]
) -> None:
    with (
        login(guarded, "boss") as boss,
        login(guarded, "orders") as limited,
        guarded.connect() as stranger,
    ):
        with guarded.halted():
            for client in (boss, limited, stranger, boss):
                for _ in range(3):
                    client.send(*words)
        allowed = boss.read_many(6)

        not_there = Refusal("NOPERM User orders has no permissions to access queue 'secret'")
        assert [limited.value() for _ in range(3)] == [not_there] * 3
        assert [stranger.value() for _ in range(3)] == [NOAUTH] * 3
        assert not [reply for reply in allowed if reply.startswith(b"-NOPERM")]


def test_a_job_is_refused_by_its_queue_when_the_store_answers_later(tmp_path: Path) -> None:
    """Also in the compiled build, where a type that is too narrow is an error."""
    _, users = user_flags(tmp_path)
    with Stage(tmp_path / "data", 2, {"users": users}, is_late=True) as stage:

        def ask(client: str, *words: str) -> bytes:
            stage.send(client, [[word.encode() for word in words]])
            stage.settle()
            return stage.replies()[client]

        assert (
            ask("boss", "AUTH", "boss", "b") == ask("packer", "AUTH", "packer", "p") == b"+OK\r\n"
        )
        id = ask("boss", "ADDJOB", "secret", "x", "0")[1:-2].decode()
        assert ask("packer", "ACKJOB", id).startswith(b"-NOPERM User packer has no permissions")
        assert ask("packer", "CLAIM.INFO", "orders.1", "s") == b"*-1\r\n"
        assert ask("boss", "ACKJOB", id) == b":1\r\n"
