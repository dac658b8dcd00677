"""A script that fails in the middle: Redis keeps what the script wrote until then.

Each script runs with a fault at each of its reads, as a key of another type or a damaged entry
would cause one. A half state is one in which some of its writes are done and some are not. The
table has how many reads leave one. A number may fall and never rise, and when it falls the table
follows.

Not here: faults at writes: each but the first leaves a half state, whatever the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
import redis

from quinque.stores.clock import ManualClock
from quinque.stores.redis.calls import Call
from quinque.stores.redis.courier import Errand
from quinque.stores.redis.keys import guarded_keys
from quinque.stores.redis.script_texts import FOLDER
from quinque.stores.redis.scripts import SCRIPTS
from tests.redis.every_change import CASES, UNAWAITED, open_same, seen
from tests.servers.redis_server import RedisServer

# Case of every_change.py: after how many reads of its scripts a fault leaves a half state, unless
# that is none.
HALF_STATES: Final[dict[str, int]] = {
    "put to the front": 2,
    "reserve": 3,
    "reserve again": 9,
    "ack": 2,
    "ack single": 6,
    "ack flushed": 5,
    "release": 1,
    "unget": 2,
    "extend events": 1,
    "flush": 11,
    "lapse events": 7,
    "expire events": 10,
    "add to a full queue": 6,
    "take": 1,
    "take again": 1,
    "take what is due": 16,
    "take at a rate": 1,
    "finish ready": 4,
    "finish with a key": 4,
    "finish what is due": 7,
    "requeue": 2,
    "nack": 2,
    "last nack": 2,
    "unget jobs": 3,
    "hold": 2,
    "extend": 2,
    "configure": 11,
    "redrive": 2,
    "redrive the queue": 3,
    "purge": 17,
    "purge one state": 4,
    "purge all": 11,
    "lapse jobs": 3,
    "end a delay": 3,
    "expire jobs": 8,
    "keep expired jobs": 7,
    "pop": 2,
    "ack elements": 3,
    "recover": 2,
    "unpop": 3,
    "delete": 4,
    "rename": 21,
    "set an expiry": 2,
    "expire a queue": 4,
    "add items": 9,
    "add more items": 2,
    "lease": 4,
    "complete": 9,
    "extend items": 2,
    "give back items": 2,
    "clean": 16,
    "clean deeply": 16,
    "purge items": 7,
    "lapse items": 14,
    "make": 2,
    "put tasks": 2,
    "put delayed tasks": 2,
    "put into a lane": 3,
    "take tasks": 2,
    "take of a lane": 2,
    "ack tasks": 2,
    "ack of a lane": 2,
    "release tasks": 2,
    "bury": 2,
    "delete tasks": 2,
    "kick": 2,
    "return tasks": 3,
    "truncate": 2,
    "drop": 2,
    "lapse tasks": 3,
    "expire tasks": 3,
    "leave a session": 3,
    "end a session": 3,
    "fill": 3,
    "fill with events": 3,
    "settle": 14,
    "settle what was marked": 15,
    "settle events": 13,
    "release a claim": 7,
    "release events of a claim": 10,
    "renew": 1,
    "drop claims": 7,
    "forfeit": 7,
    "stage": 3,
    "stage more": 2,
    "publish": 8,
    "publish events": 4,
    "forget a stage": 1,
}
# No case has these: a copy that fails is begun again, items_* are about items that another program
# lost or left without a queue, and event_share is about brokers and not about messages.
UNMEASURED: Final = frozenset(
    {
        *("copy_in_worklist", "copy_in_work", "copy_in_subscription", "copy_in_chunk"),
        *("copy_in_published", "copy_in_items", "copy_in_tube", "copy_in_tasks"),
        *("copy_in_groups", "copy_in_detached", "copy_in_feed", "copy_mark", "copy_unmark"),
        *("items_drop", "items_lost", "event_share"),
    }
)

_TIMEOUT_S: Final = 60.0
_FAULT: Final = "FAULT at a read"
_COMMAND: Final = re.compile(r"(?:redis\.call|many|drop)\('([A-Z]+)'")
_FAULTY: Final = """
local real, reads = redis, 0
local redis = setmetatable({call = function(name, ...)
  if name == 'TIME' then
    return {'1700000000', '0'}
  end
  if not ({%s})[name] then
    reads = reads + 1
    if reads == %d then
      error('%s')
    end
  end
  return real.call(name, ...)
end}, {__index = real})
"""


class Made(NamedTuple):
    """A call as it was sent."""

    script: str
    keys: list[bytes]
    argv: list[bytes | int]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer(on_socket=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with server.client() as opened:
        yield opened


@pytest.fixture(scope="module")
def writes(client: redis.Redis) -> str:
    """The names of the commands that write, of those that the scripts use, as fields of a table."""
    used = {name for path in FOLDER.rglob("*.lua") for name in _COMMAND.findall(path.read_text())}
    facts = client.execute_command("COMMAND", "INFO", *used)
    flags = {str(fact["name"]).upper(): fact["flags"] for fact in facts.values()}
    return ", ".join(f"{name} = 1" for name in sorted(used) if "write" in flags[name])


@pytest.fixture(scope="module")
def found(server: RedisServer, client: redis.Redis, writes: str) -> dict[str, dict[str, int]]:
    """Of each case: after how many reads of each script that wrote something."""
    return {
        name: {
            made.script: half
            for made, before in calls_of(name, server, client)
            if (half := half_states(made, before, writes, client)) is not None
        }
        for name in CASES
    }


def test_no_case_leaves_more_half_states_than_before(found: dict[str, dict[str, int]]) -> None:
    worse = {
        name: scripts
        for name, scripts in found.items()
        if sum(scripts.values()) > HALF_STATES.get(name, 0)
    }

    assert worse == {}, "move the reads of these scripts before their writes"


def test_the_table_is_as_good_as_the_scripts(found: dict[str, dict[str, int]]) -> None:
    counted = {name: sum(scripts.values()) for name, scripts in found.items()}

    assert {name: half for name, half in counted.items() if half} == HALF_STATES


def test_every_script_that_changes_what_a_client_was_promised_is_in_a_case(
    found: dict[str, dict[str, int]],
) -> None:
    scripts = {path.stem for path in FOLDER.glob("*.lua")}
    changing = {name for name in scripts if not Call(name, [], []).is_look}

    assert changing - {name for each in found.values() for name in each} == UNMEASURED


def test_what_a_client_was_promised_changes_only_in_calls_that_replicas_may_have_to_confirm(
    found: dict[str, dict[str, int]],
) -> None:
    unawaited = {
        name
        for name, scripts in found.items()
        if all(Call(script, [], []).is_look for script in scripts)
    }

    assert unawaited == UNAWAITED


# -- shared steps ----------------------------------------------------------------------------------


def calls_of(
    name: str, server: RedisServer, client: redis.Redis
) -> Iterator[tuple[Made, dict[bytes, tuple[int, bytes]]]]:
    """The calls of the case, each with the keys before it."""
    client.flushall()
    clock, made = ManualClock(), list[Made]()
    store = open_same(server.url, clock, _TIMEOUT_S)
    op = CASES[name](store, clock)
    before = dumped(client)
    with pytest.MonkeyPatch.context() as patched:
        packed = Errand.packed

        def note(errand: Errand) -> bytes:
            call = errand.call
            keys = [it for key in call.keys for it in guarded_keys(key, call.is_recorded, False)]
            made.append(Made(call.script, keys, list(call.argv)))
            return packed(errand)

        patched.setattr(Errand, "packed", note)
        if op is None:
            store.tick()
        else:
            store.run(op)
    store.close()
    for call in made:
        yield call, before
        restore(client, before)
        run(client, call, SCRIPTS[call.script].text.decode())
        before = dumped(client)
    client.script_flush()


def half_states(
    call: Made, before: dict[bytes, tuple[int, bytes]], writes: str, client: redis.Redis
) -> int | None:
    """After how many of its reads a fault leaves a half state; None if it writes nothing."""
    text = SCRIPTS[call.script].text.decode()
    restore(client, before)
    was = seen(client)
    run(client, call, _FAULTY % (writes, 0, "") + text)
    done = seen(client)
    if was == done:
        return None
    half = 0
    for number in range(1, 10_000):
        restore(client, before)
        if not fails(client, call, _FAULTY % (writes, number, _FAULT) + text):
            assert seen(client) == done
            return half
        half += seen(client) not in (was, done)
    raise AssertionError("it reads without end")


def fails(client: redis.Redis, call: Made, text: str) -> bool:
    """Whether the script reached its fault."""
    try:
        run(client, call, text)
    except redis.ResponseError as error:
        if _FAULT not in str(error):
            raise
        return True
    return False


def run(client: redis.Redis, call: Made, text: str) -> None:
    client.eval(text, len(call.keys), *call.keys, *call.argv)


def dumped(client: redis.Redis) -> dict[bytes, tuple[int, bytes]]:
    """All keys, as they can be restored."""
    keys: list[Any] = list(client.keys())
    with client.pipeline(transaction=False) as asked:
        for key in keys:
            asked.pttl(key)
            asked.dump(key)
        replies = asked.execute()
    return {key: (max(0, replies[2 * at]), replies[2 * at + 1]) for at, key in enumerate(keys)}


def restore(client: redis.Redis, keys: dict[bytes, tuple[int, bytes]]) -> None:
    with client.pipeline(transaction=False) as asked:
        asked.flushall()
        for key, (ttl_ms, value) in keys.items():
            asked.restore(key, ttl_ms, value)
        asked.execute()
