"""The client against real brokers: results, errors, lost connections, brokers that are gone."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import quinque
from quinque.cli.line import Line
from quinque.client.aio.broker import Broker as AsyncBroker
from quinque.client.sync.broker import Broker
from quinque.errors import (
    BadArgument,
    BadSetting,
    NoAuth,
    NotDone,
    QuinqueError,
    StoreUnavailable,
    WrongPass,
    WrongType,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    GroupCount,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.model.own_ops import ExtendLeases
from quinque.model.work_ops import (
    Add,
    Finish,
    LookAt,
    PurgeAll,
    Redrive,
    ScanQueues,
    Take,
    Terms,
)
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import TIMEOUT_S, request
from tests.servers.ports import ReservedPort

TLS = Path(__file__).parents[1] / "server" / "tls"
CERTIFICATE, KEY = str(TLS / "certificate.pem"), str(TLS / "key.pem")
OTHER, OTHER_KEY = str(TLS / "other-certificate.pem"), str(TLS / "other-key.pem")
TERMS = Terms(ttl_ms=60_000, retry_ms=30_000)


def url_of(*brokers: RunningBroker) -> str:
    return "redis://" + ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)


@pytest.fixture
def asked(broker: RunningBroker) -> Iterator[Broker]:
    with Broker(url_of(broker)) as client:
        yield client


@pytest.fixture
def name(queue: str) -> bytes:
    return queue.encode()


# -- operations in their families' words --------------------------------------------------------


def test_jobs_are_added_taken_and_finished(asked: Broker, name: bytes) -> None:
    ids = asked.run(Add(JOBS, name, [b"a", b"b"], TERMS))
    assert asked.run(LookAt(JOBS, name)).ready == 2  # type: ignore[union-attr]
    taken = asked.run(Take(JOBS, [name], 5))
    finished = asked.run(Finish(JOBS, [*ids, ids[0]]))

    assert [(job.message_id, job.body) for job in taken] == list(
        zip(ids, (b"a", b"b"), strict=True)
    )
    assert finished == [True, True, False]
    assert asked.run(Take(JOBS, [name])) == []


def test_a_job_keeps_its_terms(asked: Broker, name: bytes) -> None:
    terms = Terms(60_000, delay_ms=2_000, retry_ms=5_000, max_deliveries=3)

    [id] = asked.run(Add(JOBS, name, [b"a"], terms, key=b"k", max_length=9))
    [same] = asked.run(Add(JOBS, name, [b"b"], terms, key=b"k", confirm_ms=None))

    shown = asked.call("SHOW", id, "DETAILS")
    told = dict(zip(shown[::2], shown[1::2], strict=True))
    assert same == id
    assert (told[b"ttl"], told[b"delay"], told[b"retry"]) == (60, 2, 5)
    assert told[b"max-deliveries"] == 3


def test_queues_of_jobs_are_found(asked: Broker, name: bytes) -> None:
    asked.run(Add(JOBS, name, [b"a"], TERMS))

    cursor, queues = asked.run(ScanQueues(JOBS, 0, 1 << 40))

    assert cursor == 0
    assert name in queues
    assert asked.run(LookAt(JOBS, name + b"?")) is None
    assert asked.run(Redrive(JOBS, queue=name)) == 0
    assert asked.run(Redrive(JOBS, asked.run(Add(JOBS, name, [b"b"], TERMS)))) == 0


def test_events_are_put_handed_out_and_acked(asked: Broker, name: bytes) -> None:
    ids = asked.run(Put(EVENTS, name, [b"a", b"b"], ttl_ms=60_500))
    before = asked.run(Count(EVENTS, [name]))
    events = asked.run(Reserve(EVENTS, name, b"g", 30_000, 3))
    acked = asked.run(Ack(EVENTS, name, b"g", [ids[0], b"nosuch"]))
    extended = asked.run(ExtendLeases(EVENTS, name, [ids[1], ids[0]], 1_500, b"g"))
    released = asked.run(Release(EVENTS, name, b"g", [ids[1], ids[0]]))
    again = asked.run(Reserve(EVENTS, name, b"g", 30_000, 3))
    asked.run(Release(EVENTS, name, b"g", [ids[1]]))
    quiet = asked.run(Reserve(EVENTS, name, b"g", 30_000, 3, tells_deliveries=False))

    assert before == [QueueCount(name, 2, [])]
    assert events == [Delivery(name, ids[0], b"a", 1), Delivery(name, ids[1], b"b", 1)]
    assert (acked, extended, released) == ([True, False],) * 3
    assert (again, quiet) == (
        [Delivery(name, ids[1], b"b", 2)],
        [Delivery(name, ids[1], b"b", 0)],
    )
    assert asked.run(Count(EVENTS, [name], [b"g"])) == [
        QueueCount(name, 2, [GroupCount(b"g", 2, leased=1, redo=0, done=1, available=0)])
    ]


def test_several_operations_are_asked_for_together(asked: Broker, name: bytes) -> None:
    added, view, taken, nothing = asked.run_all(
        [
            Add(JOBS, name, [b"a", b"b"], TERMS),
            LookAt(JOBS, name),
            Take(JOBS, [name], 9),
            Finish(JOBS, []),
        ]
    )

    assert view.ready == 2
    assert [each.message_id for each in taken] == added
    assert nothing == []
    assert asked.run_all([]) == []


def test_of_several_operations_the_first_error_is_raised_and_the_others_are_done(
    asked: Broker, name: bytes
) -> None:
    asked.run(Put(EVENTS, name, [b"a"], ttl_ms=60_000))

    with pytest.raises(WrongType):
        asked.run_all([LookAt(JOBS, name), Add(JOBS, name + b"!", [b"a"], TERMS)])

    assert len(asked.run(Take(JOBS, [name + b"!"]))) == 1


def test_nothing_is_asked_for_by_an_operation_on_nothing(asked: Broker) -> None:
    assert asked.run(Finish(JOBS, [])) == []


@pytest.mark.parametrize(
    "op",
    [
        Add(EVENTS, b"q", [b"a"], TERMS),
        Put(JOBS, b"q", [b"a"], ttl_ms=1),
        Put(EVENTS, b"q", [b"a"]),
        Put(EVENTS, b"q", [b"a"], ttl_ms=1, message_id=b"mine"),
        Ack(EVENTS, b"q", b"g", [b"a"], held_only=False),
        Add(JOBS, b"q", [b"a"], Terms(60_000, retry_ms=1_500)),
    ],
)
def test_what_a_family_has_no_words_for_is_refused(asked: Broker, op: Add | Put | Ack) -> None:
    with pytest.raises(BadArgument):
        asked.run(op)


def test_an_operation_that_has_no_words_at_all_is_a_mistake(asked: Broker) -> None:
    with pytest.raises(TypeError, match="PurgeAll is not available over the wire"):
        asked.run(PurgeAll(JOBS))


def test_an_error_of_the_broker_is_raised_as_its_class(asked: Broker, name: bytes) -> None:
    asked.run(Put(EVENTS, name, [b"a"], ttl_ms=60_000))

    with pytest.raises(WrongType, match="Operation against a key holding the wrong kind of value"):
        asked.run(LookAt(JOBS, name))
    with pytest.raises(QuinqueError, match=r"^unknown command 'NOSUCH'"):
        asked.call("NOSUCH")


# -- connections --------------------------------------------------------------------------------


def test_connections_are_used_again(broker: RunningBroker, asked: Broker) -> None:
    first = asked.call("CLIENT", "ID")

    assert {asked.call("CLIENT", "ID") for _ in range(20)} == {first}


def test_threads_do_not_wait_for_each_other(asked: Broker, name: bytes) -> None:
    got: list[object] = []
    waiting = threading.Thread(
        target=lambda: got.append(asked.call("GETJOB", "TIMEOUT", 25_000, "FROM", name))
    )
    waiting.start()

    [id] = asked.run(Add(JOBS, name, [b"a"], TERMS))
    waiting.join(TIMEOUT_S)

    assert got == [[[name, id, b"a"]]]


@pytest.mark.parametrize("setting", [{"timeout_s": 0}, {"retries": -1}, {"connections": 0}])
def test_settings_that_make_no_sense_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(BadSetting, match="is not between"):
        Broker("redis://127.0.0.1", **setting)  # type: ignore[arg-type]


def test_a_copy_has_what_it_was_made_from_and_no_connection(
    broker: RunningBroker, asked: Broker
) -> None:
    asked.call("PING")

    copy = pickle.loads(pickle.dumps(asked))

    assert repr(copy) == repr(asked)
    assert copy.call("CLIENT", "ID") != asked.call("CLIENT", "ID")
    copy.close()


def test_a_message_can_be_finished_by_another_process(broker: RunningBroker, queue: str) -> None:
    with quinque.connect(url_of(broker)) as queues:
        queues.jobs(queue, codec="json").add({"a": 1})
        job = pickle.loads(pickle.dumps(queues.jobs(queue, codec="json").take(timeout=None)))

        assert job.body == {"a": 1}
        assert pickle.loads(pickle.dumps(job)).ack() is True
        assert job.ack() is False


def test_a_child_process_does_not_speak_on_its_parents_connection(asked: Broker) -> None:
    parent = asked.call("CLIENT", "ID")
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    child = fork.Process(target=lambda: theirs.send(asked.call("CLIENT", "ID")))
    child.start()

    assert ours.poll(TIMEOUT_S)
    assert ours.recv() != parent
    child.join(TIMEOUT_S)
    assert asked.call("CLIENT", "ID") == parent


# -- being let in -------------------------------------------------------------------------------


class Guarded(NamedTuple):
    """A broker that asks for a password, and where else it listens."""

    broker: RunningBroker
    path: Path
    tls_port: str


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    tls = ("--tls-listen", "127.0.0.1:0", "--tls-cert", CERTIFICATE, "--tls-key", KEY)
    with tempfile.TemporaryDirectory(prefix="q") as folder:
        path = Path(folder) / "s"
        flags = ("--requirepass", "se:cret", "--listen", f"unix:{path}", *tls)
        with start_broker(
            tmp_path_factory.mktemp("guarded"), *flags, "--tls-ca", CERTIFICATE
        ) as broker:
            yield Guarded(broker, path, broker.addresses[-1].rpartition(":")[2])


def test_who_asks_is_said_in_the_url_or_beside_it(guarded: Guarded) -> None:
    at = f"127.0.0.1:{guarded.broker.port}"
    for client in (
        Broker(f"redis://:se%3Acret@{at}"),
        Broker(f"redis://default:se%3Acret@{at}"),
        Broker(f"redis://{at}", password="se:cret"),
        Broker(f"redis://default:wrong@{at}", username="default", password="se:cret"),
        Broker(f"unix://{guarded.path}", password="se:cret"),
    ):
        with client:
            assert client.call("PING") == b"PONG"

    with pytest.raises(
        NoAuth, match=r"^Authentication required\. Pass password=, or put it in the"
    ):
        Broker(f"redis://{at}").call("PING")
    for wrong in (f"redis://:sesame@{at}", f"redis://sesame@{at}"):
        with pytest.raises(WrongPass) as caught:
            Broker(wrong).call("PING")
        assert "sesame" not in f"{caught.value!r}{caught.value}"


def test_over_tls_both_sides_show_who_they_are(guarded: Guarded) -> None:
    url = f"rediss://:se%3Acret@localhost:{guarded.tls_port}"

    with Broker(url, ca=CERTIFICATE, certificate=CERTIFICATE, key=KEY) as client:
        assert client.call("PING") == b"PONG"
    with pytest.raises(BadSetting, match="cannot verify the TLS certificate"):
        Broker(url, certificate=CERTIFICATE, key=KEY).call("PING")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_certificate_that_is_missing_or_wrong_is_named(guarded: Guarded, is_async: bool) -> None:
    url = f"rediss://:se%3Acret@localhost:{guarded.tls_port}"

    def ping(**shown: Any) -> None:
        if is_async:
            asyncio.run(AsyncBroker(url, ca=CERTIFICATE, retries=0, **shown).call("PING"))
        else:
            Broker(url, ca=CERTIFICATE, retries=0, **shown).call("PING")

    with pytest.raises(NotDone, match="may require a client certificate: pass certificate="):
        ping()
    with pytest.raises(NotDone, match=f"may not accept the certificate {re.escape(OTHER)}: it may"):
        ping(certificate=OTHER, key=OTHER_KEY)


def test_a_certificate_that_has_expired_is_told(tmp_path: Path) -> None:
    """That of the broker is told by each client; that of a client is named, and in the log."""
    expired, key = str(TLS / "expired-certificate.pem"), str(TLS / "expired-key.pem")
    tls = ("--tls-listen", "127.0.0.1:0", "--tls-cert", expired, "--tls-key", key)
    with start_broker(tmp_path / "broker", *tls) as broker:
        url = f"rediss://localhost:{broker.addresses[-1].rpartition(':')[2]}"
        told = r"the certificate of localhost:\d+ has expired: start the broker with a new one"
        with pytest.raises(BadSetting, match=told):
            Broker(url, ca=expired).call("PING")
        with pytest.raises(BadSetting, match=told):
            asyncio.run(AsyncBroker(url, ca=expired).call("PING"))
        with pytest.raises(BadSetting, match=told):
            Line(url, ca=expired).ask("PING")

    tls = ("--tls-listen", "127.0.0.1:0", "--tls-cert", CERTIFICATE, "--tls-key", KEY)
    with start_broker(tmp_path / "other", *tls, "--tls-ca", expired) as broker:
        url = f"rediss://localhost:{broker.addresses[-1].rpartition(':')[2]}"
        named = f"may not accept the certificate {re.escape(expired)}: it may have expired"
        with pytest.raises(NotDone, match=named):
            Broker(url, ca=CERTIFICATE, certificate=expired, key=key, retries=0).call("PING")
        wait_until(lambda: any("certificate has expired" in line for line in broker.log))


def test_a_key_without_its_certificate_is_refused() -> None:
    with pytest.raises(BadSetting, match=f"key {KEY} is given without its certificate"):
        Broker("rediss://localhost", ca=CERTIFICATE, key=KEY)


# -- brokers that are gone ------------------------------------------------------------------------


def test_the_next_broker_is_asked_when_one_is_gone(broker: RunningBroker, name: bytes) -> None:
    gone = ReservedPort()
    port = gone.number
    try:
        with Broker(f"redis://127.0.0.1:{port},127.0.0.1:{broker.port}", retries=0) as client:
            [id] = client.run(Add(JOBS, name, [b"a"], TERMS))

            assert client.run(Finish(JOBS, [id])) == [True]
        with pytest.raises(NotDone, match=f"at 127.0.0.1:{port} .*; start one with: quinque serve"):
            Broker(f"redis://127.0.0.1:{port}", retries=1).run(Add(JOBS, name, [b"a"], TERMS))
    finally:
        gone.close()


class Silent:
    """A listener that answers PONG, and after that every request with its last words; if it has
    none it hangs up. When it is deaf it says nothing more; when it is the last time, nobody listens
    any more once it hangs up."""

    def __init__(self, last_words: bytes = b"") -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.requests = 0
        self.is_deaf = self.is_last = False
        self._last_words = last_words
        self._talk: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            while True:
                self._talk, _ = self._server.accept()
                with self._talk as sock:
                    sock.recv(1 << 16)
                    sock.sendall(b"+PONG\r\n")
                    while data := sock.recv(1 << 16):
                        if b"HELLO" in data:  # it is one of several, and says nothing of itself
                            sock.sendall(b"-ERR\r\n" * 2)
                            continue
                        self.requests += 1
                        if not self._last_words:
                            break
                        if not self.is_deaf:
                            sock.sendall(self._last_words)
                    if self.is_last:
                        return self._server.close()
        except OSError:
            pass

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):  # over already
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if self._talk is not None:
            with suppress(OSError):  # over already
                self._talk.shutdown(socket.SHUT_RDWR)
        self._thread.join()


def test_what_may_have_been_done_is_not_asked_again_unless_that_does_no_harm() -> None:
    with Silent() as silent, Broker(f"redis://127.0.0.1:{silent.port}", retries=2) as client:
        with pytest.raises(StoreUnavailable, match="the request may have been carried out"):
            client.run(Add(JOBS, b"q", [b"a"], TERMS))
        assert silent.requests == 1

        with pytest.raises(StoreUnavailable, match="the request may have been carried out"):
            client.run(LookAt(JOBS, b"q"))
        assert silent.requests == 4


@pytest.mark.parametrize(
    ("answer", "times_put", "times_looked"),
    [
        (b"-NOTDONE not reached", 3, 3),
        (b"-LOADING not yet", 3, 3),
        (b"-UNAVAILABLE who knows", 1, 3),
        (b"-DISKFULL no room", 1, 1),
        (b"-ERR no", 1, 1),
    ],
)
def test_what_a_broker_could_not_do_is_asked_again(
    answer: bytes, times_put: int, times_looked: int
) -> None:
    with Silent(answer + b"\r\n") as busy:
        client = Broker(f"redis://127.0.0.1:{busy.port}", retries=2)

        with pytest.raises(QuinqueError) as caught:
            client.run(Put(EVENTS, b"q", [b"a"], ttl_ms=1_000))
        assert busy.requests == times_put
        assert str(caught.value) in answer.decode()

        with pytest.raises(QuinqueError):
            client.run(LookAt(JOBS, b"q"))
        assert busy.requests == times_put + times_looked


def test_an_answer_that_does_not_come_in_time_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = Broker(f"redis://127.0.0.1:{deaf.getsockname()[1]}", timeout_s=0.05, retries=0)

        with pytest.raises(NotDone, match=r"the broker did not answer in time|timed out"):
            client.call("PING")


def test_what_answers_and_is_no_broker_is_noticed() -> None:
    with Silent(b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
        client = Broker(f"redis://127.0.0.1:{web.port}", retries=0)

        with pytest.raises(StoreUnavailable, match="the server is not a Quinque broker"):
            client.run(LookAt(JOBS, b"q"))


def test_a_request_is_packed_as_any_client_would() -> None:
    """The words on the wire, as a plain client sends them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        words: list[bytes] = []

        def serve() -> None:
            sock, _ = server.accept()
            with sock:
                sock.recv(1 << 16)
                sock.sendall(b"+PONG\r\n")
                words.append(sock.recv(1 << 16))
                sock.sendall(b"*-1\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        client = Broker(f"redis://127.0.0.1:{server.getsockname()[1]}")
        assert client.run(LookAt(JOBS, b"q\r\n")) is None
        thread.join()
        client.close()

    assert words == [request("QSTAT", b"q\r\n", "DETAILS")]
