"""Facts about docs/redis-keys.md: its tables are those of the code, and Redis has no other keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgpack
import pytest

from quinque.model.claim_ops import FillClaim, MarkClaim, OpenClaims, Outcome
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.ops import Flush, Put, Reserve
from quinque.model.own_ops import RELIABLE_TERMS, AddItems, Recover
from quinque.model.queue_ops import DeleteQueues
from quinque.model.stage_ops import Part, Publish, Stage
from quinque.model.tube_ops import (
    BuryTasks,
    JoinSession,
    LeaveSession,
    MakeTube,
    PutTasks,
    TakeTasks,
    TaskTerms,
    TruncateTube,
    TubeSettings,
)
from quinque.model.work_ops import Add, Announce, AwaitEnd, Configure, Requeue, Take, Terms
from quinque.stores.redis.keys import ITEM_KEYS, KEYS, SESSION_KEYS, SHARED_KEYS, Key
from quinque.stores.redis.store import RedisStore
from quinque.stores.redis.wakeups import BEGUN, ENDED, READY, SPREAD
from tests.facts.pages import text_of
from tests.facts.repository import ROOT
from tests.servers.redis_server import RedisServer

PAGE = ROOT / "docs" / "redis-keys.md"


# When one of these four fails, put the right side between the two markers.


def test_the_table_of_a_slot_s_keys_is_that_of_the_code() -> None:
    assert _between("keys of a slot") == table(KEYS)


def test_the_table_of_the_store_s_keys_is_that_of_the_code() -> None:
    assert _between("keys of the store") == table(SHARED_KEYS)


def test_the_table_of_items_keys_is_that_of_the_code() -> None:
    assert _between("keys of items") == table(ITEM_KEYS)


def test_the_table_of_sessions_keys_is_that_of_the_code() -> None:
    assert _between("keys of sessions") == table(SESSION_KEYS)


def test_the_channels_are_those_of_the_code() -> None:
    channels = re.findall(r"^\| `(quinque:\w+)`", text_of(PAGE), re.MULTILINE)

    assert channels == [it.decode() for it in (READY, ENDED, BEGUN, SPREAD)]


def test_whatever_is_done_redis_has_no_other_keys(
    store: RedisStore, redis_server: RedisServer
) -> None:
    do_everything(store)

    found: dict[str, str] = {}
    for key in redis_server.ask("KEYS", "*"):
        found[key.decode()] = redis_server.ask("TYPE", key).decode().upper()
    assert len(found) > len(KEYS) // 2
    assert {name: type for name, type in found.items() if not _is_known(name, type)} == {}


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    opened = RedisStore(redis_url)
    yield opened
    opened.close()


def do_everything(store: RedisStore) -> None:
    """Something of every kind is in Redis."""
    store.run(Announce(b"here", 4777))
    terms = Terms(60_000, retry_ms=1_000, max_deliveries=1)
    store.run(Add(JOBS, b"w", [b"x" * 5_000, b"short"], terms))
    store.run(Add(JOBS, b"w", [b"later"], Terms(60_000, delay_ms=1_000), key=b"k"))
    (first, *_) = store.run(Take(JOBS, [b"w"], 2))
    store.run(Requeue(JOBS, [first.message_id], is_nack=True, reason=b"why"))
    store.run(AwaitEnd(JOBS, [first.message_id]))
    store.run(Configure(JOBS, b"w", max_deliveries=3, partitions=2))
    store.run(Put(EVENTS, b"e", [b"1", b"2"], ttl_ms=60_000))
    store.run(Put(EVENTS, b"e", [b"3"], ttl_ms=60_000, is_single=True, message_id=b"chosen"))
    store.run(Reserve(EVENTS, b"e", b"g", lease_ms=1_000))
    store.run(Flush(EVENTS, b"e"))
    store.run(Put(EVENTS, b"e", [b"4"], ttl_ms=60_000))
    store.run(Reserve(EVENTS, b"e", b"g", lease_ms=1_000))
    store.run(AddItems(ITEMS, b"i", [b"1", b"2"], [b"x", b"y"]))
    store.run(Take(ITEMS, [b"i"], lease_ms=60_000))
    claim_and_stage(store)
    number_and_delete(store)
    put_and_take(store)


def claim_and_stage(store: RedisStore) -> None:
    (id,) = store.run(Add(JOBS, b"c", [b"1"], Terms(60_000), key=b"k"))
    view = store.run(OpenClaims(JOBS, b"c", b"s", b"", 1_000))
    store.run(FillClaim(b"c", b"s", view.epoch, 1, 1, seals=True))
    store.run(MarkClaim(b"c", b"s", 1, Outcome.NACK, [id]))
    rows = msgpack.packb([[0, 0, -1, 0, None, [b"2"]]])
    for number in (1, 2):
        for chunk in (0, 1):
            store.run(Stage(JOBS, b"c", b"sink", b"run", number, 0, 0, chunk, rows))
    store.run(Publish(JOBS, b"c", b"sink", b"run", 1, [Part(0, 0, 2)], 99, keep_ms=1_000))
    store.run(Publish(JOBS, b"c", b"sink", b"run", 2, [Part(0, 0, 2)], 1))


def number_and_delete(store: RedisStore) -> None:
    store.run(Add(RELIABLE, b"r", [b"1", b"2"], RELIABLE_TERMS))
    store.run(Take(RELIABLE, [b"r"]))
    store.run(Recover(RELIABLE, b"r", 1, 0))
    store.run(Add(RELIABLE, b"large", [b""] * 1_001, RELIABLE_TERMS))  # more than go at once
    store.run(DeleteQueues(RELIABLE, [b"large"]))


def put_and_take(store: RedisStore) -> None:
    for session in (b"s", b"kept"):
        store.run(JoinSession(session, is_new=True))
        store.run(JoinSession(session, is_new=True))
    store.run(MakeTube(b"t", b"utubettl", TubeSettings()))
    store.run(PutTasks(b"t", [b"1", b"2"], TaskTerms(lane=b"l", ttl_ms=60_000)))
    store.run(PutTasks(b"t", [b"3"], TaskTerms(delay_ms=60_000)))
    store.run(TakeTasks(b"t", b"s"))
    store.run(BuryTasks(b"t", [b"1"]))
    store.run(LeaveSession(b"kept", keep_ms=60_000))
    store.run(LeaveSession(b"kept", keep_ms=60_000))
    store.run(JoinSession(b"kept"))
    store.run(LeaveSession(b"kept", keep_ms=60_000))
    store.run(MakeTube(b"large", b"fifo", TubeSettings()))
    store.run(PutTasks(b"large", [b""] * 2_001, TaskTerms()))  # more than are told of at once
    store.run(TruncateTube(b"large"))


def table(keys: Sequence[Key]) -> str:
    rows = ["| Key | Type | Contents |", "|---|---|---|"]
    rows += [f"| `{key.name}` | {key.type} | {key.meaning} |" for key in keys]
    return "\n".join(rows) + "\n"


def _is_known(name: str, type: str) -> bool:
    """Whether there is a kind of key of which this is one."""
    kinds = (
        (KEYS, r"quinque:\{\w+\}:"),
        (SESSION_KEYS, r"quinque:\{sessions\}:"),
        (SHARED_KEYS, "quinque:"),
        (ITEM_KEYS, ""),
    )
    for keys, prefix in kinds:
        for key in keys:
            pattern = re.sub("<[^>]+>", ".+", key.name)
            if key.type == type and re.fullmatch(prefix + pattern, name):
                return True
    return False


def _between(marker: str) -> str:
    page, begin = text_of(PAGE), f"<!-- {marker} -->\n"
    return page[page.index(begin) + len(begin) : page.index(f"<!-- /{marker} -->")]
