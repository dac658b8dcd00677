"""A program that forks: its connections end with it, though a child process of it goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

import quinque
from tests.server.broker import RunningBroker, wait_until

# Each waits for a job, and forks when it is told to. Its child ends when the test does.
_FORK = """
def fork():
    if not os.fork():
        sys.stdin.read()
        os._exit(0)
    print("forked", flush=True)
    signal.pause()
"""
_THREADS = f"""
import os, signal, sys, threading, quinque
{_FORK}
jobs = quinque.connect(sys.argv[1], timeout_s=600).jobs(sys.argv[2])
threading.Thread(target=jobs.take, kwargs={{"timeout": None}}, daemon=True).start()
sys.stdin.readline()
fork()
"""
_TASKS = f"""
import asyncio, os, signal, sys, quinque.aio
{_FORK}
async def main():
    jobs = quinque.aio.connect(sys.argv[1], timeout_s=600).jobs(sys.argv[2])
    task = asyncio.create_task(jobs.take(timeout=None))
    await asyncio.to_thread(sys.stdin.readline)
    fork()
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [_THREADS, _TASKS], ids=["threads", "tasks"])
def test_a_program_that_was_killed_takes_nothing_though_its_child_goes_on(
    broker: RunningBroker, queue: str, program: str
) -> None:
    url = f"redis://127.0.0.1:{broker.port}"
    with (
        broker.connect() as client,
        quinque.connect(url) as queues,
        subprocess.Popen(
            [sys.executable, "-c", program, url, queue],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as parent,
    ):
        assert parent.stdin is not None
        assert parent.stdout is not None
        wait_until(lambda: b"blocked_clients:1\r\n" in client.call("INFO", "clients"), "it waits")
        parent.stdin.write(b"now\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"forked\n"

        parent.kill()
        parent.wait()
        wait_until(lambda: b"blocked_clients:0\r\n" in client.call("INFO", "clients"), "it is gone")
        queues.jobs(queue).add(b"for others")

        job = queues.jobs(queue).take()
        assert job is not None
        assert job.body == b"for others"
