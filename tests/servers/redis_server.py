"""One real redis-server, as a process that a test may kill, pause and start again.

Called by   tests/conftest.py, redis_cluster.py, redis_sentinel.py, and tests of servers that fail.
Calls       the program redis-server; ports.py.

    with RedisServer() as server, server.client() as client:
        client.set("a", "b")
        server.kill()
        server.restart()  # empty, unless it had appendonly

It keeps its address through kills, whoever else chooses ports meanwhile.

Not here: several of them together (redis_cluster.py, redis_sentinel.py), installing the program
(tools/setup).
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.patience import PATIENCE_S
from tests.servers.ports import ReservedPort

_FOLLOW_MS: Final = 1000  # a replica says at least once in this time how far it has come
_IS_UP: Final = re.compile(r"eady to accept connections|Sentinel ID is")


class RedisDidNotStart(Exception):
    """The server ended, or said nothing, before it listened; the text is its log."""


class RedisServer:
    """A server on a port of 127.0.0.1, or on a socket only. `log` is what it has said so far.

    `options` are further words of its command line, `config` is a file that comes before them. Its
    files are in `folder`, which stays; without one, in a folder that goes when it is closed.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *options: str,
        on_socket: bool = False,
        appendonly: bool = False,
        replica_of: RedisServer | None = None,
        in_cluster: bool = False,
        config: Path | None = None,
        is_awaited: bool = True,
    ) -> None:
        """It listens; if it is not `is_awaited`, then only after wait_until_up().

        Raises RedisDidNotStart with what it said.
        """
        # Not in the folder of a test: the path of a socket has at most 107 bytes.
        self._own_folder = None if folder else Path(tempfile.mkdtemp(prefix="quinque-redis-"))
        self.folder = folder or self._own_folder or Path()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log: list[str] = []
        self._ports = [] if on_socket else [ReservedPort()]
        self.port = 0 if on_socket else self._ports[0].number
        self.url = f"unix://{self.folder}/socket" if on_socket else f"redis://{self.address}"
        self._words = ["redis-server", *([str(config)] if config else [])]
        self._words += ["--port", str(self.port), "--bind", "127.0.0.1"]
        self._words += ["--dir", str(self.folder), "--save", ""]
        self._words += ["--appendonly", "yes" if appendonly else "no"]
        self._words += ["--repl-diskless-sync-delay", "0"]  # it is 5 s: others might come
        if on_socket:
            self._words += ["--unixsocket", f"{self.folder}/socket"]
        if replica_of is not None:
            self._words += ["--replicaof", "127.0.0.1", str(replica_of.port)]
        if in_cluster:
            self._ports.append(ReservedPort())
            self._words += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port)]
        self._words += options
        self._start()
        if is_awaited:
            self.wait_until_up()

    @property
    def address(self) -> str:
        """Its host and port, as in a URL."""
        return f"127.0.0.1:{self.port}"

    @property
    def bus_port(self) -> int:
        """Where the other nodes of its cluster reach it."""
        return self._ports[1].number

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def is_answering(self) -> bool:
        """Whether it runs and is not paused."""
        return self.is_running and not self._is_paused

    def client(self, **options: Any) -> redis.Redis:
        """A new client of this server alone, which gives up when it does not answer."""
        return redis.Redis.from_url(self.url, **{"socket_timeout": PATIENCE_S, **options})

    def ask(self, *words: str | bytes | float) -> Any:
        """What it answers to one command."""
        return self._client.execute_command(*words)

    def flush(self) -> None:
        """No key is left."""
        self.ask("FLUSHALL")

    def has_followers(self, ports: set[int]) -> bool:
        """Whether the servers at these ports, and no others, are its replicas, and each has got all
        that it was told until now."""
        with self.client(single_connection_client=True) as client:
            facts: dict[str, Any] = client.info("replication")
            rows = [row for name, row in facts.items() if re.fullmatch(r"slave\d+", name)]
            # A new one may be listed for a second before writes are sent to it.
            return {row["port"] for row in rows} == ports and client.wait(
                len(ports), _FOLLOW_MS
            ) == len(ports)

    def kill(self) -> None:
        """SIGKILL: it has no time to do anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: it ends in order."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: it does nothing and says nothing, and its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)
        self._is_paused = True

    def go_on(self) -> None:
        """SIGCONT: it goes on where it was paused."""
        self._process.send_signal(signal.SIGCONT)
        self._is_paused = False

    def restart(self) -> None:
        """Stop it if it still runs, and start it again with the same address and folder."""
        if self.is_running:
            self.stop()
        self._start()
        self.wait_until_up()

    def wait_until_up(self) -> None:
        """It listens, and what it kept is loaded.

        Raises RedisDidNotStart with what it said.
        """
        self._is_settled.wait(PATIENCE_S)
        if not self._is_up:
            self.close()
            raise RedisDidNotStart("\n".join(self.log))

    def close(self) -> None:
        """It is gone, and so is its folder, if it was its own."""
        self.kill()
        for port in self._ports:
            port.close()
        if self._own_folder:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> None:
        # Once more, because a server may have closed a connection that it was asked over before.
        self._client = self.client(retry=Retry(NoBackoff(), 1))
        self._is_up = False
        self._is_paused = False
        self._is_settled = threading.Event()  # it is up, or will never be
        self._process: subprocess.Popen[str] = subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # Read to the end: a server whose words nobody reads stands still when the pipe is full.
        self._reader = threading.Thread(
            target=self._read_log, args=(self._process, self._is_settled), name="log", daemon=True
        )
        self._reader.start()

    def _read_log(self, process: subprocess.Popen[str], is_settled: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.log.append(line.rstrip("\n"))
                if _IS_UP.search(line):
                    self._is_up = True
                    is_settled.set()
        is_settled.set()

    def _end(self, number: signal.Signals) -> None:
        """Raises subprocess.TimeoutExpired when it does not end."""
        self._process.send_signal(number)  # to one that has ended: nothing
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self._client.close()
