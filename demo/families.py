"""Show the five families, each with its own words, with published clients of both protocols.

Called by   `make demo`, tests/transcripts/test_demo.py.
Calls       demo.py for the broker; redis-py and tarantool, which know nothing of Quinque.

    jobs       a consumer fails, and the job comes back to the next one
    events     two consumer groups get the same event
    tubes      over both protocols: Tarantool's client puts a task, redis-py takes it, and back
    items      adding the same id twice adds one item
    reliable   an element that was not acked comes back when the consumer asks for it

The exit code is 0 if every check passed.

Not here: kills and many messages (demo.py), Spark (pipeline.py).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import tarantool
from redis import Redis
from rich.console import Console

from demo.demo import Broker, Row, table_of

Call = Callable[..., Any]

LEASE_S = 60
LIFE_S = 3600  # of the event


def main() -> int:
    started_s, console = monotonic(), Console()
    with tempfile.TemporaryDirectory(prefix="quinque-demo-") as folder:
        broker = Broker(Path(folder, "data"), "--tarantool-listen", "127.0.0.1:0")
        try:
            console.print(
                f"Started a broker: RESP on 127.0.0.1:{broker.port}, "
                f"IPROTO on 127.0.0.1:{broker.tarantool_port}."
            )
            with broker.client() as client:
                rows = [row for show in FAMILIES for row in show(broker, client)]
            broker.stop()
        finally:
            broker.kill()
    console.print(table_of(rows))
    is_good = all(row.held for row in rows)
    words = "All five families work, over both protocols." if is_good else "A check FAILED."
    console.print(f"{words} {monotonic() - started_s:.1f} s.")
    return 0 if is_good else 1


def jobs(broker: Broker, client: Redis) -> list[Row]:
    call: Call = client.execute_command
    id = call("ADDJOB", "invoices", "invoice 17", 0, "RETRY", LEASE_S)
    first = call("GETJOB", "FROM", "invoices")
    call("NACK", id)
    second = call("GETJOB", "WITHCOUNTERS", "FROM", "invoices")
    acked = call("ACKJOB", id)
    return [
        Row("jobs", "ADDJOB, GETJOB, NACK: the job comes back", "1", first[0][1] == second[0][1]),
        Row("jobs", "GETJOB, ACKJOB: the job is done", str(acked), acked == 1),
    ]


def events(broker: Broker, client: Redis) -> list[Row]:
    call: Call = client.execute_command
    id = call("QADD", "orders", LIFE_S, "one book")
    got = [call("QGET", "orders", group) for group in ("billing", "shipping")]
    acked = sum(call("QACK", "orders", group, id) for group in ("billing", "shipping"))
    are_same = all(event == [id, b"one book"] for event in got)
    return [
        Row("events", "QADD, QGET: two groups get one event", str(len(got)), are_same),
        Row("events", "QACK: each group acks it", str(acked), acked == 2),
    ]


def tubes(broker: Broker, client: Redis) -> list[Row]:
    call: Call = client.execute_command
    other = tarantool.Connection("127.0.0.1", broker.tarantool_port)
    try:
        other.call("queue.create_tube", ("mails", "fifottl", {"ttr": LEASE_S}))
        other.call("queue.tube.mails:put", ("to ann",))
        task = call("TUBE.TAKE", "mails", 0)
        call("TUBE.ACK", "mails", task[0])
        call("TUBE.PUT", "mails", "to bob")
        [[name, _, data]] = other.call("queue.tube.mails:take", (0,)).data
        [[_, state, _]] = other.call("queue.tube.mails:ack", (name,)).data
    finally:
        other.close()
    is_bob = data in ("to bob", b"to bob") and state == "-"
    return [
        Row("tubes", "put over IPROTO, TUBE.TAKE over RESP", "1", task[2] == b"to ann"),
        Row("tubes", "TUBE.PUT over RESP, take and ack over IPROTO", "1", is_bob),
    ]


def items(broker: Broker, client: Redis) -> list[Row]:
    call: Call = client.execute_command
    added = [call("WQ.ADD", "thumbnails", "photo-7", "resize it") for _ in range(2)]
    leased = call("WQ.LEASE", "thumbnails", LEASE_S * 1000)
    done = [call("WQ.COMPLETE", "thumbnails", "photo-7") for _ in range(2)]
    is_leased = leased == [[b"photo-7", b"resize it"]]
    return [
        Row("items", "WQ.ADD twice: one item", str(sum(added)), added == [1, 0] and is_leased),
        Row("items", "WQ.COMPLETE twice: done once", str(sum(done)), done == [1, 0]),
    ]


def reliable(broker: Broker, client: Redis) -> list[Row]:
    call: Call = client.execute_command
    [id] = call("RQ.PUSH", "uploads", "photo 1")
    [[_, popped, _]] = call("RQ.POP", "uploads")
    again = call("RQ.RECOVER", "uploads", 1, 0)
    acked = call("RQ.ACK", "uploads", id)
    is_back = popped == id and again == [[id, b"photo 1"]]
    return [
        Row("reliable", "RQ.POP without an ack, RQ.RECOVER: it comes back", "1", is_back),
        Row("reliable", "RQ.ACK: the element is done", str(len(acked)), acked == [id]),
    ]


FAMILIES = (jobs, events, tubes, items, reliable)


if __name__ == "__main__":
    sys.exit(main())
