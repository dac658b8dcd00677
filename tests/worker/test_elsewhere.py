"""A broker, its store, a client and a worker on a system that lacks what only Linux has.

The processes run without it (elsewhere/sitecustomize.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import quinque
from quinque.stores.embedded.disk import reserve
from tests.server.broker import start_broker
from tests.server.resp import TIMEOUT_S
from tests.worker.stage import RunningWorker

ELSEWHERE = {"PYTHONPATH": str(Path(__file__).with_name("elsewhere"))}

CLIENT = """
import os, sys
import quinque

assert not hasattr(os, "posix_fallocate")
with quinque.connect(sys.argv[1]) as queues:
    parcels = queues.jobs("parcels", codec="json")
    parcels.add({"number": 18})
    with parcels.take() as job:
        print(job.body)
with quinque.open(sys.argv[2]) as queues:
    print(queues.jobs("parcels").take(timeout=0).body)
"""


def test_all_parts_work_without_what_only_linux_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quinque.open(tmp_path / "opened") as opened:
        opened.jobs("parcels").add(b"written on Linux")
    monkeypatch.setenv("PYTHONPATH", ELSEWHERE["PYTHONPATH"])

    with (
        start_broker(tmp_path, "--segment-size", "64kb") as broker,
        RunningWorker(broker, "", "--processes", "2") as worker,
    ):
        doubled = worker.result(worker.add({"do": "double", "of": 4}))
        died = worker.result(worker.add({"do": "die once"}))
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, worker.url, str(tmp_path / "opened")],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        with broker.connect() as asked:
            asked.call("MEMORY", "PURGE")
            memory = asked.call("INFO", "memory").decode()
            for number in range(200):
                asked.call("ADDJOB", "kept", f"{number:01000}", "0")
        broker.kill()
        broker.restart()
        with broker.connect() as asked:
            kept = asked.call("QLEN", "kept")
        is_out = broker.stop()

    assert doubled["result"] == 8
    assert died["result"] == {"deliveries": 2}
    assert client.stdout == "{'number': 18}\nb'written on Linux'\n", client.stderr
    assert "used_memory_rss:0" not in memory
    assert kept == 200
    assert is_out == 0
    assert not any("ERROR" in line or "WARNING" in line for line in broker.log)


def test_room_is_reserved_with_zeros_where_the_file_system_has_no_call_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    real = os.pwrite
    try:
        os.write(file, b"data")

        reserve(file, 4, 3_000_000)
        size_bytes = os.fstat(file).st_size
        monkeypatch.setattr(os, "pwrite", lambda *args: real(*args) and _full())
        with pytest.raises(OSError, match="full"):
            reserve(file, size_bytes, 5_000_000)

        assert os.fstat(file).st_size == size_bytes == 3_000_004
        assert os.pread(file, 6, 0) == b"data\0\0"
    finally:
        os.close(file)


def _full() -> int:
    raise OSError("the disk is full")
