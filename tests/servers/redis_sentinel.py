"""A real Redis with replicas, and real Sentinels that watch over it.

Called by   tests of stores that find their Redis through Sentinels.
Calls       redis_server.py.

    with Sentinels() as sentinels:
        sentinels.primary.kill()
        sentinels.wait_until_whole()  # they have made a replica the primary

Not here: clients (redis-py), a Redis that is spread over several (redis_cluster.py).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from redis.exceptions import RedisError, ResponseError

from tests.servers.patience import holds_within, wait_until
from tests.servers.redis_server import RedisServer

# How often a Sentinel does each of these, in ms. Left alone it takes seconds, and so would tests.
# Not ping-period: a replica not heard of for five of them is not chosen, and these are asked once a
# second.
_OFTEN: Final = {"info-period": 200, "publish-period": 200, "ask-period": 100}
# A Sentinel that stood still for so long does nothing for half a minute. Left alone that is 2 s.
_UNTILTED: Final = {"tilt-trigger": 60_000}
_FAILOVER_S: Final = 6.0  # it is over by then, or was given up and has to be asked for again
_GOOD_AGAIN_S: Final = 0.5  # a replica that was silent for a moment is heard of by then


class Sentinels:
    """One primary and its replicas, known to the Sentinels as `service`.

    A primary that says nothing for `down_after_ms` is replaced by a replica. Files are in `folder`;
    without one, in a folder that goes when this is closed. `options` are for the Redis servers.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *options: str,
        replicas: int = 1,
        sentinels: int = 3,
        service: str = "quinque",
        down_after_ms: int = 1000,
        appendonly: bool = False,
    ) -> None:
        """All of them see one another.

        Raises RedisDidNotStart, or AssertionError which says what did not come true.
        """
        self.service = service
        self._own_folder = None if folder else Path(tempfile.mkdtemp(prefix="quinque-redis-"))
        self._folder = folder or self._own_folder or Path()
        self._down_after_ms = down_after_ms
        self.servers: list[RedisServer] = []
        self.sentinels: list[RedisServer] = []
        try:
            for number in range(1 + replicas):
                replica_of = self.servers[0] if number else None
                self.servers.append(
                    RedisServer(
                        self._folder / f"redis-{number}",
                        *options,
                        appendonly=appendonly,
                        replica_of=replica_of,
                    )
                )
            for number in range(sentinels):
                self.sentinels.append(self._start_sentinel(number, quorum=sentinels // 2 + 1))
            wait_until(self._have_met, "the Sentinels know one another and the replicas")
            self.wait_until_whole()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        addresses = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"redis+sentinel://{addresses}/{self.service}"

    @property
    def primary(self) -> RedisServer:
        """The server that the first Sentinel that answers calls so."""
        return self._named_by(next(each for each in self.sentinels if each.is_answering))

    @property
    def replicas(self) -> list[RedisServer]:
        """All other servers."""
        primary = self.primary
        return [server for server in self.servers if server is not primary]

    def failover(self) -> RedisServer:
        """A replica is the primary instead, and all know it; that one."""
        was = self.primary

        def has_changed() -> bool:
            return self.primary is not was

        def is_replaced() -> bool:
            if has_changed():
                return True
            try:
                self.sentinels[0].ask("SENTINEL", "FAILOVER", self.service)
            except ResponseError:  # no replica is good enough just now, or it is under way
                return holds_within(has_changed, _GOOD_AGAIN_S)
            return holds_within(has_changed, _FAILOVER_S)

        wait_until(is_replaced, f"{was.address} is no longer the primary")
        self.wait_until_whole()
        return self.primary

    def flush(self) -> None:
        """No key is left."""
        self.primary.flush()

    def wait_until_whole(self) -> None:
        """The Sentinels agree on a primary, and the other servers that answer follow it."""
        wait_until(self._is_whole, "the Sentinels agree on a primary, and the others follow it")

    def close(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.close()
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

    def _start_sentinel(self, number: int, quorum: int) -> RedisServer:
        config = self._folder / f"sentinel-{number}.conf"  # it writes there what it learns
        config.write_text(
            f"sentinel monitor {self.service} 127.0.0.1 {self.servers[0].port} {quorum}\n"
            f"sentinel down-after-milliseconds {self.service} {self._down_after_ms}\n"
            # A failover that fails is tried again after twice as long.
            f"sentinel failover-timeout {self.service} 2000\n"
        )
        sentinel = RedisServer(self._folder / f"sentinel-{number}", "--sentinel", config=config)
        for name, period_ms in (_OFTEN | _UNTILTED).items():
            sentinel.ask("SENTINEL", "DEBUG", name, period_ms)
        return sentinel

    def _have_met(self) -> bool:
        others, replicas = len(self.sentinels) - 1, len(self.servers) - 1
        views = [_view(sentinel, self.service) for sentinel in self.sentinels]
        return all(
            (int(view["num-other-sentinels"]), int(view["num-slaves"])) == (others, replicas)
            for view in views
        )

    def _is_whole(self) -> bool:
        try:
            named = {self._named_by(each) for each in self.sentinels if each.is_answering}
            if len(named) != 1:
                return False
            (primary,) = named
            followers = {s.port for s in self.servers if s.is_answering and s is not primary}
            return primary.is_answering and primary.has_followers(followers)
        except RedisError:  # one has just gone, or is loading
            return False

    def _named_by(self, sentinel: RedisServer) -> RedisServer:
        port = int(_view(sentinel, self.service)["port"])
        return next(server for server in self.servers if server.port == port)


def _view(sentinel: RedisServer, service: str) -> dict[str, str]:
    """What a Sentinel says of the primary."""
    with sentinel.client(protocol=2, decode_responses=True) as client:
        words: Any = client.execute_command("SENTINEL", "MASTER", service)
    return dict(zip(words[::2], words[1::2], strict=True))
