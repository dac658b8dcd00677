"""Tarantool's own protocol: a program written for Tarantool's queue, on both.

    1 task         put, take and ack, each when the one before has been answered
    50 tasks       as many of these at once, on the same connection: replies come in any order

The program is asynctnt-queue's, on uvloop, and the tube a fifo. Quinque and a real Tarantool take
turns in the same run. With `wal_mode = write` Tarantool answers when the change is with the system;
so does Quinque with `fsync = everysec`, which has it on the disk within a second as well.

Where there is no Tarantool, or no queue module for it, Quinque's rows stand alone, and what is to
be installed is said. TARANTOOL_QUEUE names the folder that holds the module's folder `queue`;
without it Tarantool looks where it always does, and in `.rocks` of this repository.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import asynctnt
import asynctnt_queue
import uvloop

from bench.harness import (
    BODY,
    ROOT,
    Result,
    Server,
    Table,
    free_port,
    in_turns,
    median_ratio,
    per_second,
    scratch,
    start_quinque,
    times,
)
from bench.load import drive, encode
from bench.summary import TARANTOOLS

MODULE = "TARANTOOL_QUEUE"
TUBE = "bench"
CYCLES = {1: 3_000, 50: 40_000}  # by tasks, together
ROUNDS = 7

MISSING = f"""\
Beside nothing: {{}}. To compare with a real Tarantool:
    apt-get install tarantool           Debian's, of which 2.6 is known to work
    tarantoolctl rocks install queue    in the repository's folder; or unpack the sources of
                                        tarantool/queue, release 1.5.0, and set {MODULE}
                                        to the folder in which there is queue/init.lua\
"""

# It listens when there is something to hear.
_SCRIPT = """\
local port, folder, paths, tube = arg[1], arg[2], arg[3], arg[4]
package.path = paths .. package.path
box.cfg{work_dir = folder, wal_mode = 'write', log_level = 2}
box.schema.user.grant('guest', 'super')
queue = require('queue')
queue.create_tube(tube, 'fifo')
box.cfg{listen = '127.0.0.1:' .. port}
"""


@dataclass
class _Side:
    """A server, where it speaks Tarantool's protocol, and what was measured of it."""

    server: Server
    port: int
    rates: list[float] = field(default_factory=list)
    spent_us: list[float] = field(default_factory=list)  # of CPU time, a cycle


def run(quick: bool) -> Result:
    result = Result()
    with scratch() as folder, _quinque(folder / "ours") as ours:
        sides = {"Quinque": ours}
        theirs = _start_tarantool(folder / "theirs")
        try:
            if theirs is not None:
                sides["Tarantool"] = _Side(theirs, theirs.port)
            result.tables.append(_beside(sides, result.figures, quick))
        finally:
            if theirs is not None:
                theirs.stop()
    return result


def _beside(sides: dict[str, _Side], figures: dict[str, float], quick: bool) -> Table:
    table = Table(
        "Tarantool's protocol, one connection: put, take and ack, per second",
        ["", *sides, *(f"{name}, CPU µs per task" for name in sides), "Quinque / Tarantool"],
    )
    for tasks, cycles in CYCLES.items():
        count = 10 * tasks if quick else cycles
        measures = {name: partial(_measure, side, tasks, count) for name, side in sides.items()}
        rates = in_turns(measures, 1 if quick else ROUNDS, both_ways=True)
        cells = [per_second(median(found)) for found in rates.values()]
        for side in sides.values():
            cells.append(f"{median(side.spent_us):.0f}")
            side.spent_us.clear()
        ratio = "–"
        if "Tarantool" in sides:
            found = median_ratio(rates["Quinque"], rates["Tarantool"])
            if tasks > 1:
                figures[f"{TARANTOOLS}{tasks} tasks"] = found
            ratio = times(found)
        table.rows.append([f"{tasks} tasks" if tasks > 1 else "1 task", *cells, ratio])
    return table


def _measure(side: _Side, tasks: int, count: int) -> float:
    """Put, take and ack `count` times in all, with `tasks` tasks. Return how often a second."""
    began_s = side.server.cpu_s()
    rate = uvloop.run(_cycles(side.port, tasks, count // tasks))
    side.spent_us.append((side.server.cpu_s() - began_s) / count * 1e6)
    return rate


async def _cycles(port: int, tasks: int, of_each: int) -> float:
    connection = asynctnt.Connection(host="127.0.0.1", port=port, reconnect_timeout=0)
    await connection.connect()
    tube = asynctnt_queue.Queue(connection).tube(TUBE)
    data = BODY.decode()

    async def work() -> None:
        for _ in range(of_each):
            await tube.put(data)
            task = await tube.take()
            await task.ack()

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(work())
    spent_s = time.perf_counter() - began_s
    await connection.disconnect()
    return tasks * of_each / spent_s


@contextmanager
def _quinque(folder: Path) -> Iterator[_Side]:
    port = free_port()
    flags = ("--fsync", "everysec", "--tarantool-listen", f"127.0.0.1:{port}")
    with start_quinque(folder, *flags) as server:
        drive(server.port, [encode("TUBE.CREATE", TUBE, "fifo")], 1)
        yield _Side(server, port)


class _Tarantool(Server):
    """A real one, with a tube."""

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as sock:
                return sock.recv(128).startswith(b"Tarantool")
        except OSError:
            return False


def _start_tarantool(folder: Path) -> Server | None:
    """It runs; or what is missing has been said."""
    tarantool = shutil.which("tarantool")
    if tarantool is None:
        print("\n" + MISSING.format("the program tarantool is not installed"), file=sys.stderr)
        return None
    folder.mkdir()
    script = folder / "start.lua"
    script.write_text(_SCRIPT)
    module = os.environ.get(MODULE) or str(ROOT / ".rocks" / "share" / "tarantool")
    paths = f"{module}/?.lua;{module}/?/init.lua;"
    port = free_port()
    try:
        return _Tarantool([tarantool, str(script), str(port), str(folder), paths, TUBE], port)
    except RuntimeError:
        print("\n" + MISSING.format("its queue module did not start"), file=sys.stderr)
        return None
