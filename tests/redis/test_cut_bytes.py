"""The connection to Redis is cut at any byte of any request or reply, and opened again.

Every kind of operation (every_change.py) runs through a proxy that cuts once. Afterwards all keys
are as before the operation, or as after it, and the outcome tells which:

    a result       as after it, once; the result is that of an operation that was not cut
    NotDone        as before
    unknown        either; but as before if Redis did not get the whole request

A build cuts at some bytes. QUINQUE_EFFORT=1 cuts at every byte.

Not here: servers that stop (tests/faults), faults inside a script (test_script_faults.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from quinque.errors import NotDone, StoreUnavailable
from quinque.model.ops import Op
from quinque.stores.clock import ManualClock
from quinque.stores.redis import sessions
from quinque.stores.redis.keys import ALL_SLOTS, slot_of
from quinque.stores.redis.script_texts import FOLDER
from quinque.stores.redis.scripts import SCRIPTS
from tests.model.effort import EFFORT
from tests.redis.every_change import CASES, NAMES, WITHOUT_REPLY, open_same, seen
from tests.servers.cutting_proxy import CuttingProxy
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_server import RedisServer

_TIMEOUT_S: Final = 60.0
_SESSIONS: Final = b"quinque:{sessions}:"

# One operation, and several calls one after the other: between two of them it may be done in part.
IN_STEPS: Final = frozenset(
    {"spread", "purge all", "clean deeply", "leave a session", "end a session"}
)
# The broker repeats these, and the repeat is a second change of the lease in the lifecycle log.
TWICE_ON_RECORD: Final = frozenset({"extend events", "extend items"})


class AllScripts(set[str]):
    """Redis has every script, and the broker knows it: no text is sent."""

    def __contains__(self, name: object) -> bool:
        return True


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running, running.client() as client:
        for path in FOLDER.glob("*.lua"):
            client.script_load(SCRIPTS[path.stem].text)
        yield running


@pytest.fixture(scope="module")
def proxy(server: RedisServer) -> Iterator[CuttingProxy]:
    with CuttingProxy("127.0.0.1", server.port, server_s=PATIENCE_S) as running:
        yield running


class Attempt:
    """One run of a case, on an empty server."""

    def __init__(self, name: str, server: RedisServer, proxy: CuttingProxy) -> None:
        server.flush()
        self._server, self.proxy = server, proxy
        self._clock = ManualClock()
        self.store = open_same(proxy.url, self._clock, _TIMEOUT_S)
        # The first queue of a slot makes a second call, which notes the slot.
        self.store._store.edge.slots.update(map(slot_of, NAMES))
        self.op: Op | None = CASES[name](self.store, self._clock)
        for courier in self.couriers:
            courier._known = AllScripts()
        self.before = self.seen()

    @property
    def couriers(self) -> list[Any]:
        return list(self.store._store._routes._couriers.values())

    def run(self) -> object:
        """The result, or the error."""
        try:
            if self.op is not None:
                return self.store.run(self.op)
            self.store.tick()
        except (NotDone, StoreUnavailable) as error:
            return error
        return None

    def beat(self) -> None:
        """What a broker does each second."""
        self.store.finish(sessions.beat(self.store._store.edge))
        self.store.tick()

    def seen(self) -> dict[bytes, Any]:
        """What is in all keys but the list of slots."""
        with self._server.client() as client:
            found = seen(client)
        return {key: _timeless(key, value) for key, value in found.items() if key != ALL_SLOTS}

    def close(self) -> None:
        self.proxy.go_on()
        self.store.close()


def _timeless(key: bytes, value: Any) -> Any:
    """Sessions live by the clock of Redis, which does not stand still."""
    if key.startswith(_SESSIONS) and isinstance(value, list | dict):
        return sorted(member if isinstance(member, bytes) else member[0] for member in value)
    return value


def _off_record(found: dict[bytes, Any]) -> dict[bytes, Any]:
    """Without the lifecycle log, and what is kept of sessions."""
    return {
        key: {name: value[name] for name in value if name != b"rows"}
        if key.endswith(b"}:slot")
        else value
        for key, value in found.items()
        if not key.endswith(b"}:record") and not key.startswith(_SESSIONS)
    }


def places(length: int) -> list[int]:
    """The bytes at which something of this length is cut."""
    if EFFORT:
        return list(range(length))
    return sorted({0, 1, length // 3, 2 * length // 3, length - 1} & set(range(length)))


@pytest.mark.parametrize("name", CASES)
def test_after_a_cut_it_is_done_or_not_and_the_outcome_tells(
    name: str, server: RedisServer, proxy: CuttingProxy
) -> None:
    whole = Attempt(name, server, proxy)
    from_bytes = proxy.carried_bytes
    result = whole.run()
    lengths = [to - start for start, to in zip(from_bytes, proxy.carried_bytes, strict=True)]
    after = whole.seen()
    whole.close()
    assert not isinstance(result, Exception), result
    assert after != whole.before

    for to_server, length in zip((True, False), lengths, strict=True):
        was_cut = False
        for place in places(length):
            cut = Attempt(name, server, proxy)
            assert cut.before == whole.before, "the case is not the same each time"
            cuts = proxy.cuts
            proxy.cut(**{"to_server" if to_server else "to_client": place}, is_once=True)
            outcome = cut.run()
            if name in WITHOUT_REPLY:
                cut.beat()
            then = cut.seen()
            cut.close()
            where = f"{'request' if to_server else 'reply'} cut at byte {place} of {length}"
            if proxy.cuts == cuts:
                # This time fewer bytes passed: times have more or fewer digits, and the measured
                # conversation may have had a request of the broker's own in it.
                assert outcome == result, where
                continue
            was_cut = True
            if isinstance(outcome, NotDone):
                assert then == whole.before, f"{where}: {outcome}"
            elif isinstance(outcome, StoreUnavailable):
                known = [whole.before] if to_server else [whole.before, after]
                assert then in known or name in IN_STEPS, f"{where}: {outcome}"
            elif name in WITHOUT_REPLY or name in TWICE_ON_RECORD:
                assert _off_record(then) == _off_record(after), where
            else:
                assert then == after, where
                assert outcome == result, where
        assert was_cut, "no request" if to_server else "no reply"


@pytest.mark.parametrize("name", CASES)
def test_what_was_never_sent_is_not_done(
    name: str, server: RedisServer, proxy: CuttingProxy
) -> None:
    attempt = Attempt(name, server, proxy)
    proxy.refuse()
    attempt.store._loop.run_until_complete(_unlinked(attempt.couriers))
    attempt.store._store._routes._timeout_s = 0.01

    outcome = attempt.run()
    then = attempt.seen()
    attempt.close()
    is_told = attempt.op is not None and name not in WITHOUT_REPLY
    assert isinstance(outcome, NotDone) or not is_told, outcome
    assert then == attempt.before


async def _unlinked(couriers: list[Any]) -> None:
    """The broker knows that it has no connection."""
    while any(courier._link is not None for courier in couriers):
        await asyncio.sleep(0)
