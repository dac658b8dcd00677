"""A broker that the system refuses memory ends, says so, and has lost nothing when it is back."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.server.broker import start_broker
from tests.server.resp import Client, request

CLIENTS = 300
BODY = b"x" * 150_000  # a unix socket takes all of it while the broker is halted
TOTAL_BYTES = CLIENTS * len(BODY)
# Enough for what the requests are read into and for their records, and too little for the batch
# that these are joined in.
ALLOWED_BYTES = TOTAL_BYTES * 5 // 2


def test_a_batch_that_has_no_memory_ends_the_broker_and_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "socket"
    with start_broker(tmp_path, "--listen", f"unix:{path}") as broker, ExitStack() as opened:
        client = opened.enter_context(broker.connect())
        ids = [client.call("ADDJOB", "q", number, 0) for number in range(100)]
        writers = [opened.enter_context(connect(path)) for _ in range(CLIENTS)]
        assert all(writer.call("PING") == b"PONG" for writer in writers)
        with broker.halted():
            most = virtual_bytes(broker.pid) + ALLOWED_BYTES
            resource.prlimit(broker.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            for writer in writers:
                writer.send_bytes(request("ADDJOB", "q", BODY, 0))

        assert broker.wait() == 4
        assert "stopping the broker because of an unexpected error" in broker.log[-1]
        assert "MemoryError" in broker.log[-1]
        broker.restart()
        with broker.connect() as client:
            assert all(client.call("SHOW", job_id) for job_id in ids)


def connect(path: Path) -> Client:
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(BODY))
    sock.connect(str(path))
    return Client(sock)


def virtual_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
