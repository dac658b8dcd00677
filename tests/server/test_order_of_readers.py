"""Who waits comes before whoever asks in the turn in which something came."""

from __future__ import annotations

import pytest

from tests.server.broker import wait_until
from tests.server.resp import Client, request

READERS = {
    "jobs": (("GETJOB", "FROM"), ("ADDJOB", "x", 0), ("GETJOB", "NOHANG", "FROM"), b"*-1\r\n"),
    "reliable": (("RQ.POP", "BLOCK", -1), ("RQ.PUSH", "x"), ("RQ.POP",), b"*0\r\n"),
}


@pytest.mark.parametrize("family", READERS)
@pytest.mark.parametrize("count", [1, 2])
def test_who_waits_is_served_first(
    client: Client, other: Client, queue: str, family: str, count: int
) -> None:
    wait, (add, *rest), ask, nothing = READERS[family]
    client.send(*wait, queue)
    wait_until(lambda: b"blocked_clients:1\r\n" in other.call("INFO", "clients"))

    other.send_bytes(request(add, queue, *rest) + request(*ask, queue) * count)

    assert client.value()[0][-1] == b"x"
    other.read()
    assert other.read_many(count) == [nothing] * count
