"""The same calls on a real Tarantool with its queue module and on a broker: what they answer, where
it differs, and whether that is meant.

Called by   people, by hand; it needs what Debian's package `tarantool` installs.
Calls       both servers; tests/tarantool_scenes.py (what is called).

    python -m tests.tarantool_differences /folder/that/holds/queue/init.lua [scene ...]

It ends with 1 when something differs that no scene says. Time passes as it does: a run takes some
seconds.

Not here: how fast they are (bench/tarantool.py).
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import msgpack

from tests.server.broker import start_broker, wait_until
from tests.server.iproto import CALL, EVAL, packet, tarantool_port
from tests.server.resp import TIMEOUT_S
from tests.servers.ports import ReservedPort
from tests.tarantool_scenes import (
    LAST_SESSION,
    SCENES,
    Asked,
    Begun,
    Closed,
    Ended,
    Line,
    Waited,
)

# In one piece it is among those that a broker knows.
CREATE: Final = "local name, type, cfg = ... ; queue.create_tube(name, type, cfg)"
SERVER: Final = """\
local port, folder, module = arg[1], arg[2], arg[3]
package.path = module .. '/?.lua;' .. module .. '/?/init.lua;' .. package.path
box.cfg{work_dir = folder, wal_mode = 'none', log_level = 2}
box.schema.user.grant('guest', 'super')
queue = require('queue')
box.cfg{listen = '127.0.0.1:' .. port}
"""
# Where in Tarantool's own files it was raised.
PLACE: Final = re.compile(r"^\S+\.lua:\d+: ")


class Speaker:
    """One connection to either of them."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self._file.read(128)

    def ask(self, kind: int, body: dict[int, Any]) -> Any:
        """What a request gives; an error as a text."""
        self._socket.sendall(packet(kind, 1, body))
        size = int.from_bytes(self._file.read(5)[1:], "big")
        # What is text and what is bytes stays so, whatever is in it.
        unpacker = msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogateescape")
        unpacker.feed(self._file.read(size))
        header, reply = unpacker.unpack(), unpacker.unpack()
        if header[0]:
            return f"error {header[0] & 0x7FFF}: {PLACE.sub('', reply[0x31])}"
        return reply[0x30]

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Stage:
    """A server, the connections to it by their names, and a tube that the scene is about."""

    def __init__(self, port: int, tube: str) -> None:
        self._port = port
        self._tube = tube
        self._connections: dict[str, Speaker] = {}
        self._begun: dict[str, Future[Any]] = {}
        self._threads = ThreadPoolExecutor()
        self._session = b""

    def play(self, line: Line) -> Any:
        """What the line gives, as it can be compared."""
        match line:
            case Asked(who, function, args):
                return self._ask(who, function, args)
            case Begun(who, function, args):
                self._begun[who] = self._threads.submit(self._ask, who, function, args)
                return None
            case Ended(who):
                return self._begun.pop(who).result(TIMEOUT_S)
            case Closed(who):
                self._connections.pop(who).close()
                return None
            case Waited(seconds):
                time.sleep(seconds)
                return None

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._threads.shutdown()

    def _ask(self, who: str, function: str, args: tuple[Any, ...]) -> Any:
        connection = self._connections.get(who)
        if connection is None:
            connection = self._connections[who] = Speaker(self._port)
        args = tuple(self._session if it is LAST_SESSION else it for it in args)
        if function == "create":
            return self._plain(connection.ask(EVAL, {0x27: CREATE, 0x21: (self._tube, *args)}))
        name = function if "." in function else f"queue.tube.{self._tube}:{function}"
        if function == "queue.statistics" and not args:
            args = (self._tube,)
        found = self._plain(connection.ask(CALL, {0x22: name, 0x21: args}))
        return found.replace(self._tube, "TUBE") if isinstance(found, str) else found

    def _plain(self, value: Any) -> Any:
        """Without what is different in each run."""
        if isinstance(value, list | tuple):
            return [self._plain(it) for it in value]
        if isinstance(value, dict):
            return {self._plain(key): self._plain(it) for key, it in sorted(value.items())}
        if isinstance(value, str):
            raw = value.encode("utf-8", "surrogateescape")
            if len(raw) == 16:
                self._session = raw
                return "a session"
        return value


@contextmanager
def real_tarantool(module: Path) -> Iterator[int]:
    """The port of a Tarantool with the queue module."""
    with tempfile.TemporaryDirectory() as folder, closing(ReservedPort()) as reserved:
        script = Path(folder) / "server.lua"
        script.write_text(SERVER)
        words = ["tarantool", str(script), str(reserved.number), folder, str(module)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: _listens(reserved.number), "Tarantool")
            yield reserved.number
        finally:
            process.kill()
            process.wait()


@contextmanager
def our_broker() -> Iterator[int]:
    """The port on which a broker speaks Tarantool's protocol."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_broker(Path(folder), "--tarantool-listen", "127.0.0.1:0") as broker,
    ):
        yield tarantool_port(broker)


def _listens(port: int) -> bool:
    try:
        Speaker(port).close()
    except OSError:
        return False
    return True


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def compare(name: str, lines: list[Line], theirs: int, ours: int) -> tuple[int, int, int]:
    """Play a scene on both; how many lines are the same, differ as they say, and differ."""
    tube = re.sub(r"\W", "_", name)
    stages = [Stage(port, tube) for port in (theirs, ours)]
    same = meant = different = 0
    for line in lines:
        them, us = [stage.play(line) for stage in stages]
        if isinstance(line, Waited | Begun | Closed):
            continue
        reason = line.differs
        if repr(them) == repr(us):  # 1 and 1.0 are not the same here
            same += 1
            if reason:
                say(f"  same     {line.shown()}: {us!r}   though {reason}")
            continue
        meant += bool(reason)
        different += not reason
        say(f"  {'meant   ' if reason else 'DIFFERS '} {line.shown()}   {reason}")
        say(f"           Tarantool {them!r}")
        say(f"           Quinque   {us!r}")
    for stage in stages:
        stage.close()
    return same, meant, different


def main(words: list[str]) -> int:
    module, *names = words
    totals = [0, 0, 0]
    with real_tarantool(Path(module)) as theirs, our_broker() as ours:
        for name in names or SCENES:
            say(name)
            found = compare(name, SCENES[name], theirs, ours)
            totals = [total + count for total, count in zip(totals, found, strict=True)]
    say("{} replies are the same, {} differ as is meant, {} differ".format(*totals))
    return 1 if totals[2] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
