"""Consumers that die and brokers that stand still: a lease ends when it ends, and once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import TIMEOUT_S

LEASE_S = 1.0
CONSUMER = """
import socket, sys
from tests.server.resp import Client
client = Client(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
print(client.call("QGET", "q", "g", "EX", sys.argv[2])[0].decode(), flush=True)
sys.stdin.read()
"""


def test_the_event_of_a_killed_consumer_comes_back_once_when_its_lease_ends(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as waiter:
        id = waiter.call("QADD", "q", 600, "body")
        began_s = monotonic()
        assert id == kill_consumer_at_work(broker)
        is_free = waiter.call("QNOTIFY", "g", 0, "q") is not None
        assert not is_free or monotonic() > began_s + LEASE_S

        woken_by = waiter.call("QNOTIFY", "g", TIMEOUT_S, "q")

        assert woken_by == b"q"
        assert monotonic() > began_s + LEASE_S
        assert waiter.call("QGET", "q", "g") == [id, b"body"]
        assert waiter.call("QGET", "q", "g") is None
        assert waiter.call("QACK", "q", "g", id) == 1
        assert waiter.call("QNOTIFY", "g", 0, "q") is None


def test_a_broker_that_stood_still_ends_the_leases_that_ended_and_no_others(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as late, broker.connect() as other:
        long = late.call("QADD", "q", 600, "long")
        brief = late.call("QADD", "q", 600, "brief")
        # The brief lease last: were it over by then, the other would be of the same event.
        assert late.call("QGET", "q", "g", "EX", 600)[0] == long
        assert late.call("QGET", "q", "g", "EX", LEASE_S)[0] == brief

        broker.signal(signal.SIGSTOP)
        late.send("QACK", "q", "g", brief)
        late.sock.settimeout(1.5 * LEASE_S)
        with pytest.raises(TimeoutError):
            late.read()
        broker.signal(signal.SIGCONT)

        late.sock.settimeout(TIMEOUT_S)
        assert late.value() == 0, "too late: others may have it by now"
        assert other.call("QGET", "q", "g") == [brief, b"brief"]
        assert other.call("QGET", "q", "g") is None
        assert late.call("QACK", "q", "g", long) == 1


def test_a_client_that_stands_still_keeps_nobody_waiting(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call("QADD", "q", 600, "body")
        with _consumer(broker) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline(), "it has the event"
            consumer.send_signal(signal.SIGSTOP)
            assert client.call("QNOTIFY", "g", TIMEOUT_S, "q") == b"q"
            assert client.call("QGET", "q", "g")[1] == b"body"
            consumer.kill()


def kill_consumer_at_work(broker: RunningBroker) -> bytes:
    """A process gets an event and dies before it can ack; the event's id."""
    with _consumer(broker) as consumer:
        assert consumer.stdout is not None
        id = consumer.stdout.readline().strip()
        consumer.kill()
    return id


def _consumer(broker: RunningBroker) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CONSUMER, str(broker.port), str(LEASE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
