"""The parts of a running broker: its store, users, clients and blocked readers.

Called by   listener.py (new connections), connection.py, dispatch.py, commands/.
Calls       turn.py, waiters.py, dispatch.py.

Not here: sockets (listener.py), start and stop (cli/serve.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET
from time import monotonic, time
from typing import Any, Literal

from quinque.dialects.command import Command
from quinque.dialects.okq import OKQ_GROUP
from quinque.errors import LimitReached, QuinqueError
from quinque.model.giving_back import giving_back
from quinque.server.client import Client
from quinque.server.config import Config
from quinque.server.connection import Connection
from quinque.server.counts import Rates, Stats
from quinque.server.dispatch import Dispatch
from quinque.server.inbox import Inbox
from quinque.server.latency import LatencyMonitor
from quinque.server.redaction import shortened, without_secrets
from quinque.server.sessions import Sessions
from quinque.server.slowlog import SlowLog
from quinque.server.ticker import Crash
from quinque.server.together import Together
from quinque.server.turn import Turn
from quinque.server.users import Users
from quinque.server.waiters import Waiters
from quinque.stores.base import Store

log = logging.getLogger("quinque.server")

# How much of each request a monitor is shown.
_SHOWN_ARGS = 128
_SHOWN_BYTES = 1024

_GRAPHIC_FIRST, _GRAPHIC_LAST = ord("!"), ord("~")

PauseMode = Literal["", "WRITE", "ALL"]


def _keep_alive(sock: socket.socket | None, idle_s: int) -> None:
    """The system asks after `idle_s` of silence, and then three times in as long again. A client
    that does not answer is lost."""
    if not idle_s or sock is None or sock.family not in (AF_INET, AF_INET6):
        return
    sock.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
    for name, number in (
        ("TCP_KEEPIDLE", idle_s),
        ("TCP_KEEPALIVE", idle_s),  # its name on macOS
        ("TCP_KEEPINTVL", max(1, idle_s // 3)),
        ("TCP_KEEPCNT", 3),
        # The same for a client that does not confirm what it was sent; the system does not ask
        # then. Only Linux has it; elsewhere the system gives up sending after some minutes.
        ("TCP_USER_TIMEOUT", 2000 * idle_s),
    ):
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(IPPROTO_TCP, option, number)


def _crash(what: str, exc: BaseException) -> None:
    """Raise the error to the caller of the event loop."""
    raise exc


class Broker:
    def __init__(
        self,
        config: Config,
        store: Store,
        users: Users,
        commands: Iterable[Command],
        loop: asyncio.AbstractEventLoop,
        stop: Callable[[], None],
        crash: Crash = _crash,
    ) -> None:
        self.config = config
        self.store = store
        self.users = users
        self.loop = loop
        self.stop = stop  # asks the process to end, after this turn
        self.started_s = time()
        self.stats = Stats()
        self.facts: dict[
            str, int | str
        ] = {}  # facts about processes that the broker runs, for INFO
        self.clients: dict[int, Client] = {}
        self.monitors: list[Connection] = []
        self.rates = Rates()
        self.slowlog = SlowLog()
        self.latency = LatencyMonitor()
        self.slow_ns = 0  # requests that take longer are for SLOWLOG, LATENCY or both
        self._slowlog_ns = 0
        self.pause_mode: PauseMode = ""
        self._paused: dict[Client, None] = {}  # whose requests wait for the end of a pause
        self._unpause_timer: asyncio.TimerHandle | None = None
        self._last_client_id = 0
        self.stalled_s = 0  # for how long no turn has ended
        self._ended_turns = -1
        self.all_gone = asyncio.Event()  # set when a stopping broker has no client left
        self._is_stopping = False
        self.waiters = Waiters(loop, store.run, answers_at_once=store.answers_at_once)
        store.watched = self.waiters.lines
        store.on_doubt = self.waiters.wake_patterns
        store.has_takers = self.waiters.has_takers
        store.consumers.own = self._own_consumers
        self.turn = Turn(loop, store, Inbox(self), self.waiters, self.latency, crash)
        store.on_ready = self.turn.touch
        self.sessions = Sessions(store.run, config, self.turn.touch)
        self.dispatch = Dispatch(self, commands)
        self.together = Together(self, self.dispatch)
        self.read_live_settings()
        self.sessions.leave_earlier_ones()
        self.turn.touch()

    def read_live_settings(self) -> None:
        """Take over the settings that CONFIG SET may have changed and the hot path needs."""
        slower_us = self.config.slowlog_log_slower_than
        self._slowlog_ns = slower_us * 1000 if slower_us >= 0 else 1 << 62
        self.latency.watch_from(self.config.latency_monitor_threshold)
        # One comparison for both: a time that equals the threshold is already too long.
        self.slow_ns = min(self._slowlog_ns, self.latency.least_ns - 1)
        self.slowlog.resize(self.config.slowlog_max_len)
        for client in self.clients.values():
            client.read_limits()

    def note_slow(self, client: Client, row: Command, argv: list[bytes], spent_ns: int) -> None:
        """A request took longer than `slow_ns`."""
        if spent_ns > self._slowlog_ns:
            self.slowlog.add(client, argv, spent_ns)
        self.latency.note("fast-command" if row.is_fast else "command", spent_ns)

    def each_second(self) -> None:
        """Run the checks that are due once in a second."""
        # A turn that was begun a second ago has ended, or turns do not end any more.
        self.stalled_s = self.stalled_s + 1 if self.turn.ended == self._ended_turns else 0
        self._ended_turns = self.turn.ended
        self.turn.touch()
        self.close_idle()
        self.sessions.each_second()
        self.rates.measure(monotonic(), self.commands_run(), self.stats)

    def commands_run(self) -> int:
        """Count the requests that were run since the start or CONFIG RESETSTAT."""
        rows = self.dispatch.commands.values()
        return sum(
            row.calls + sum(each.calls for each in (row.subcommands or {}).values()) for row in rows
        )

    # -- clients ------------------------------------------------------------------------------

    def welcome(self, client: Client, transport: asyncio.Transport) -> None:
        """A connection was made: it gets a number and a user, or is sent away."""
        self.stats.connections += 1
        self._last_client_id += 1
        client.id = self._last_client_id
        client.user = self.users.first()
        client.address = shown_address(transport.get_extra_info("peername"))
        client.local_address = shown_address(transport.get_extra_info("sockname"))
        if self._is_stopping:  # it was accepted just before the listeners closed
            client.close()
            return
        if len(self.clients) >= self.config.max_clients:
            self.stats.refused_connections += 1
            client.send_error(LimitReached("max number of clients reached"))
            client.close()
            return
        _keep_alive(transport.get_extra_info("socket"), self.config.tcp_keepalive)
        self.clients[client.id] = client

    def farewell(self, client: Client) -> None:
        """Remove a closed connection from all waiting lists."""
        self.clients.pop(client.id, None)
        self._paused.pop(client, None)
        for waiting in client.waits():
            self.waiters.remove(waiting)
        self.forget_monitor(client)
        # After its waits, or one of them would get what comes back here.
        self.sessions.leave(client)
        if self._is_stopping and not self.clients:
            self.all_gone.set()

    def forget_monitor(self, client: Client) -> None:
        """The client, if it was a monitor, is shown nothing more."""
        if client.is_monitor:
            self.monitors = [monitor for monitor in self.monitors if monitor is not client]

    def give_back(self, op: Any, found: Any, session: bytes = b"") -> None:
        """Return the messages that an operation found, because its client is gone. `session` is the
        session that they were for, if it is named."""
        for back in giving_back(op, found if isinstance(found, list) else (), session):
            try:
                self.store.run(back)
            except QuinqueError as error:
                log.warning(
                    "cannot return the messages of a disconnected client now; they return later:"
                    " %s",
                    error,
                )
            self.turn.touch()

    def say_goodbye(self) -> None:
        """Waiting readers are answered, and every connection closes once its replies are out."""
        self._is_stopping = True
        self.unpause()
        for client in list(self.clients.values()):
            for waiting in client.waits():
                self.waiters.give_up(waiting)
            client.close()
        if not self.clients:
            self.all_gone.set()

    def serve_first(self, queues: Iterable[bytes]) -> None:
        """Serve clients that are blocked on these queues, before the client that asks now; as far
        as this turn goes."""
        if self.waiters.count:
            ready, lanes = self.store.ready, self.store.ready_lanes
            for queue in queues:
                if queue in ready and not self.waiters.is_spent:
                    ready.discard(queue)
                    news = lanes.pop(queue, None)
                    self.waiters.wake((queue,), {} if news is None else {queue: news})

    def consumers(self, queues: Sequence[bytes]) -> dict[bytes, dict[bytes, int]]:
        """Return the number of consumers by queue and group, at this broker and at others that
        share its store: readers in QNOTIFY, and okq's registered clients. With names, return only
        the consumers of these queues."""
        names = dict.fromkeys(queues)  # one may be named twice
        counts = self._own_consumers(names)
        elsewhere = self.store.consumers.elsewhere
        for queue in names or elsewhere:
            for group, count in elsewhere.get(queue, {}).items():
                groups = counts.setdefault(queue, {})
                groups[group] = groups.get(group, 0) + count
        return counts

    def _own_consumers(self, names: Collection[bytes] = ()) -> dict[bytes, dict[bytes, int]]:
        """Return how many of them are clients of this broker. No name is given twice."""
        counts = self.waiters.consumers(names)
        for client in self.clients.values():
            registered: Collection[bytes] = client.registered
            # A client that is blocked right now is counted already.
            if registered and not client.is_closing and not client.waits():
                if names:  # look for the fewer among the more
                    few, many = sorted((registered, names), key=len)
                    registered = [queue for queue in few if queue in many]
                for queue in registered:
                    groups = counts.setdefault(queue, {})
                    groups[OKQ_GROUP] = groups.get(OKQ_GROUP, 0) + 1
        return counts

    def close_idle(self) -> None:
        """Close clients that sent nothing, got no reply and read nothing of one for `idle-timeout`,
        but not those that wait for a reply or are of a session, whose tasks would go to another
        while they work."""
        limit_s = self.config.idle_timeout
        if limit_s > 0:
            oldest_s = monotonic() - limit_s
            for client in list(self.clients.values()):
                client.note_reading()
                is_waiting = bool(client.waits()) or client.is_owed or client in self._paused
                is_busy = is_waiting or client.is_monitor or bool(client.session)
                if client.active_s < oldest_s and not is_busy:
                    client.abort()

    # -- pausing (CLIENT PAUSE) ---------------------------------------------------------------

    def pause(self, mode: PauseMode, for_ms: int) -> None:
        """Let requests of this mode wait for `for_ms`."""
        if self._unpause_timer is not None:
            self._unpause_timer.cancel()
        self.pause_mode = mode
        self._unpause_timer = self.loop.call_later(for_ms / 1000, self.unpause)

    def unpause(self) -> None:
        """Requests run again, those that waited first."""
        if self._unpause_timer is not None:
            self._unpause_timer.cancel()
        self.pause_mode, self._unpause_timer = "", None
        paused, self._paused = self._paused, {}
        for client in paused:
            client.active_s = monotonic()  # the pause was not its silence
            client.go_on()

    def must_pause(self, client: Client, row: Command | None) -> bool:
        """Return whether a request of this row has to wait for the end of the pause."""
        if row is None or row.name.startswith("CLIENT"):
            return False
        if self.pause_mode == "WRITE" and not row.is_write:
            queued = client.transaction
            if row.name != "EXEC" or queued is None or not queued.has_writes:
                return False
        self._paused[client] = None
        return True

    # -- looking on (MONITOR) -----------------------------------------------------------------

    def show_monitors(self, connection: Connection, argv: list[bytes]) -> None:
        """Every monitor sees the request, except for passwords."""
        shown = without_secrets(argv)
        if shown is None:
            return
        shown = shortened(shown, _SHOWN_ARGS, _SHOWN_BYTES)
        words = b" ".join(b'"%b"' % _quoted(arg) for arg in shown)
        line = b"+%.6f [0 %b] %b\r\n" % (time(), connection.address.encode(), words)
        for monitor in self.monitors:
            monitor.send(line)


def _quoted(text: bytes) -> bytes:
    """Bytes as redis-cli shows them between double quotes."""
    return b"".join(_SHOWN[byte] for byte in text)


def shown_address(name: Any) -> str:
    """The address of a socket, as CLIENT LIST and logs have it."""
    if isinstance(name, tuple):
        host, port = name[0], name[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # A unix socket may have any bytes for a name, and a client is one line of a list.
    shown = "".join(
        chr(byte) if _GRAPHIC_FIRST <= byte <= _GRAPHIC_LAST else f"\\x{byte:02x}"
        for byte in os.fsencode(name or "unix")
    )
    return f"{shown}:0"


_ESCAPED = {ord("\n"): b"\\n", ord("\r"): b"\\r", ord("\t"): b"\\t", 7: b"\\a", 8: b"\\b"}
_ESCAPED |= {ord('"'): b'\\"', ord("\\"): b"\\\\"}
_SHOWN = [
    _ESCAPED.get(byte) or (bytes([byte]) if 32 <= byte < 127 else b"\\x%02x" % byte)
    for byte in range(256)
]
