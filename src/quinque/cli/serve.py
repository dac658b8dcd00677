"""Run a broker in the foreground: the one place where a store and a server meet.

Called by   cli/main.py.
Calls       stores/ (opens one), announce.py (its address for other brokers), exporting.py (the
            exporter), http_port.py (metrics and probes), logs.py, notify.py (systemd), server/
            (everything else).

SIGTERM, SIGINT, SIGHUP and SHUTDOWN stop the broker cleanly, in this order: it accepts no new
clients, answers blocked readers, stores and answers the requests in progress, closes connections,
and closes the store.

Not here: settings (server/config.py).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from typing import Any

import uvloop

from quinque.cli.announce import announced_address
from quinque.cli.exporting import Exporting
from quinque.cli.http_port import HttpPort
from quinque.cli.logs import start_logging
from quinque.cli.notify import Notifier
from quinque.drivers import Drivers
from quinque.errors import BadDriver, BadSetting, QuinqueError, many
from quinque.model.work_ops import Announce
from quinque.server.broker import Broker
from quinque.server.commands.subcommands import with_subcommands
from quinque.server.commands.table import all_commands
from quinque.server.config import Config
from quinque.server.listener import addresses, close, listen, listen_for_tarantool, open_to_all
from quinque.server.open_files import clients_allowed
from quinque.server.users import Users
from quinque.stores.base import Store
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from quinque.stores.pending import Pending
from quinque.version import __version__, is_compiled

log = logging.getLogger("quinque")

_FAILED, _ASKED_WRONGLY, _MAY_START_LATER = 1, 2, 4  # exit codes: docs/install.md

_LATE_S = 1.0  # a Redis that has not answered for this time is logged


def run(config: Config) -> int:
    """Serve until told to stop. Return the exit code. The log says why the broker cannot start."""
    start_logging(config)
    try:
        users = Users.from_config(config)
        unknown = users.unknown_commands({row.name for row in with_subcommands(all_commands())})
        if unknown:
            raise BadSetting("\n".join(unknown))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(config, users))
    except QuinqueError as exc:
        for line in str(exc).splitlines():
            log.error("%s", line)
        if exc.retry:
            return _MAY_START_LATER
        return _ASKED_WRONGLY if isinstance(exc, BadSetting) else _FAILED
    finally:
        log.info("stopped")


async def open_store(config: Config) -> Store:
    """Open the store of the settings.

    Raises FolderLocked, JournalDamaged, StoreUnavailable, NotDone, BadSetting.
    """
    return _open_embedded(config) if config.store == "embedded" else await _open_redis(config)


async def close_store(store: Store) -> None:
    """Finish the running operations of the store, and close it."""
    if hasattr(store, "aclose"):
        await store.aclose()
    else:
        store.close()


async def _open_redis(config: Config) -> Store:
    from quinque.stores.redis.served import ServedRedisStore
    from quinque.stores.redis.urls import shown_store_url

    # The broker's id is stored under this name. No two brokers of a machine listen on the same
    # address, but other machines may use the same port.
    first = [*config.listen, *config.tls_listen][0]
    node = f"{gethostname()}:{Path(config.dir).resolve()}:{first}"
    url = shown_store_url(config.store)
    with said_if_late(asyncio.get_running_loop(), f"connecting to {url}"):
        store = await ServedRedisStore.open(
            config.store,
            node=node,
            timeout_s=config.store_timeout,
            replicas=config.store_replicas,
            may_evict=config.store_may_evict,
            takes_fewer=config.store_replicate == "available",
            keeping=_keeping(config),
        )
    log.info("opened %s", url)
    return store


@contextmanager
def said_if_late(loop: asyncio.AbstractEventLoop, text: str) -> Iterator[None]:
    """Log the text if the block takes longer than a moment."""
    timer = loop.call_later(_LATE_S, log.info, "%s", text)
    try:
        yield
    finally:
        timer.cancel()


def _open_embedded(config: Config) -> EmbeddedStore:
    try:
        store = EmbeddedStore(
            Path(config.dir),
            fsync=config.fsync,
            segment_bytes=config.segment_size,
            maxmemory=config.maxmemory,
            keeping=_keeping(config),
            drivers=_drivers(config),
        )
    except OSError as exc:
        raise BadSetting(
            f"cannot open the data directory {config.dir}: {exc.strerror or exc}"
        ) from exc
    found = store.recovered
    log.info(
        "opened %s with %s in %s",
        config.dir,
        many(found.messages, "message"),
        many(len(found.queues), "queue"),
    )
    if found.cut_bytes:
        log.warning(
            "removed an incomplete last write of %s that was never acknowledged: %s",
            many(found.cut_bytes, "byte"),
            found.cut_where,
        )
    return store


def _drivers(config: Config) -> Drivers:
    """Return the drivers of the settings and of installed packages. Raises BadSetting."""
    drivers = Drivers()
    for text in config.drivers:
        try:
            drivers.register_text(text)
        except BadDriver as exc:
            raise BadSetting(f"drivers: {exc}") from exc
    drivers.register_installed()
    return drivers


def _keeping(config: Config) -> Keeping:
    max_age_ms = round(config.lifecycle_max_age * 1000)
    return Keeping(
        config.lifecycle,
        max_age_ms,
        config.lifecycle_max_size,
        is_counting=bool(config.http_listen),
    )


async def _serve(config: Config, users: Users) -> int:
    store = await open_store(config)
    try:
        return await _serve_from(store, config, users)
    finally:
        await close_store(store)


async def _serve_from(store: Store, config: Config, users: Users) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    _make_room_for_clients(config)
    broker = Broker(config, store, users, all_commands(), loop, stopping.set, _crash)
    servers = await listen(broker)
    others = await listen_for_tarantool(broker)
    await _announce(broker, servers)
    exporting = None
    if config.lifecycle_export:
        exporting = Exporting(config, addresses(servers)[0], broker.facts)
    http = HttpPort(broker, config.http_listen)
    ends = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
        ends.append(signal.SIGHUP)
    for number in ends:
        loop.add_signal_handler(number, stopping.set)
    # A collection would look for cycles in millions of messages and find none, because messages are
    # unlinked when they are removed. At a million messages, a full collection would stop all
    # clients for 0.2 s.
    gc.collect()
    gc.freeze()
    gc.disable()
    seconds = loop.create_task(_each_second(broker))
    exposed = open_to_all(broker, [*servers, *others])
    if exposed:
        log.warning(
            "anyone who can connect to %s can read and change all queues; set a password "
            "(requirepass) or users",
            ", ".join(exposed),
        )
    if others:
        log.info("listening on %s for Tarantool clients", ", ".join(addresses(others)))
    if http.urls:
        log.info("serving metrics and probes on %s", ", ".join(http.urls))
    if not is_compiled():
        log.info(
            "running the pure Python build; QUINQUE_COMPILED=1 pip install gives the faster "
            "compiled build"
        )
    log.info("quinque %s listens on %s", __version__, ", ".join(addresses(servers)))
    notifier = Notifier()
    notifier.ready(f"listens on {', '.join(addresses(servers))}")
    watchdog = loop.create_task(_each_while(notifier))
    await stopping.wait()
    log.info("stopping")
    notifier.stopping()
    http.begin_to_stop()
    seconds.cancel()
    if exporting is not None:
        await exporting.stop()
    close([*servers, *others])
    broker.say_goodbye()
    await _until_closed(broker, config.shutdown_timeout)
    broker.turn.stop()
    await http.stop()
    watchdog.cancel()
    return 0


async def _announce(broker: Broker, servers: list[asyncio.Server]) -> None:
    """Tell the brokers that share the store about this one, now or when the store answers."""
    way_to_store = getattr(broker.store, "own_address", "")
    address = announced_address(broker.config, servers, way_to_store)
    if address is None:
        return
    told: asyncio.Future[object] = broker.loop.create_future()
    given: Any = broker.store.run(Announce(address.host.encode(), address.port))
    if isinstance(given, Pending):
        given.then(told.set_result, told.set_result)
        await told


def _make_room_for_clients(config: Config) -> None:
    """Raise the limit of open files to the number of clients, or lower that number if the system
    does not permit it."""
    allowed, files = clients_allowed(config)
    if config.max_clients > allowed:
        log.warning(
            "reduced max-clients to %d from %d: this process is allowed %d open files; raise the "
            "limit (ulimit -n)",
            allowed,
            config.max_clients,
            files,
        )
        config.max_clients = allowed


def _crash(what: str, exc: BaseException) -> None:
    """End the process at once. It does not stop cleanly, because that would write and answer from
    an unknown state."""
    try:
        log.critical("unexpected error in %s", what, exc_info=exc)
        log.critical(
            "stopping the broker because of an unexpected error in %s (%s); start it again: all "
            "acknowledged data is safe",
            what,
            type(exc).__name__,
        )
        logging.shutdown()
    finally:
        os._exit(_MAY_START_LATER)


async def _each_second(broker: Broker) -> None:
    while True:
        await asyncio.sleep(1)
        try:
            broker.each_second()
        except Exception as exc:
            _crash("the task that runs every second", exc)


async def _each_while(notifier: Notifier) -> None:
    """Notify the watchdog as long as the event loop runs."""
    while notifier.watchdog_s:
        notifier.alive()
        await asyncio.sleep(notifier.watchdog_s)


async def _until_closed(broker: Broker, timeout_s: float) -> None:
    """Wait for the connections to close, then close the others. Messages of replies that were not
    sent are ready again."""
    try:
        async with asyncio.timeout(timeout_s):
            await broker.all_gone.wait()
    except TimeoutError:
        for connection in list(broker.clients.values()):
            connection.drop()
