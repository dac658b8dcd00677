"""A broker is killed while tasks are put, taken, acked, buried, deleted: what was answered is so.

Requests are sent in one go, and it is killed after some of the replies. What was not answered may
have happened or not; what was answered has, and nothing else did. The worker comes back to its
session each time, and finds what it has taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal, meaning, request
from tests.servers import stores

REQUESTS: Final = 300
ROUNDS: Final = 3
LANES: Final = (b"a", b"b", b"c", b"d")
ENDS: Final = ("TUBE.ACK", "TUBE.DELETE")


class Belief:
    """What is known of the tasks, and what may be so."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []  # the data of all puts, in their order
        self.put: dict[int, bytes] = {}  # answered: data by id
        self.taken: set[int] = set()
        self.buried: set[int] = set()
        self.done: set[int] = set()
        self.doubted: set[int] = set()  # of requests that were not answered
        self.doubted_takes = 0

    def hear(self, words: tuple[Any, ...], reply: Any) -> None:
        """The request was answered so."""
        word = words[0]
        if word == "TUBE.PUT":
            id, state, data = reply
            assert (state, data) == (b"r", words[2])
            assert id not in self.put, "an id comes once"
            self.put[id] = data
        elif word == "TUBE.TAKE":
            if reply is not None:
                id, state, data = reply
                assert id not in self.taken | self.done | self.buried, "it is somebody's, or done"
                assert (state, data) == (b"t", self.put.setdefault(id, data))
                self.taken.add(id)
        else:
            id, state, data = reply
            assert (id, data) == (words[2], self.put[words[2]])
            assert state == (b"!" if word == "TUBE.BURY" else b"-")
            self.taken.discard(id)
            (self.buried if word == "TUBE.BURY" else self.done).add(id)

    def doubt(self, words: tuple[Any, ...]) -> None:
        """The request was not answered."""
        if words[0] == "TUBE.TAKE":
            self.doubted_takes += 1
        elif words[0] != "TUBE.PUT":
            self.doubted.add(words[2])


def requests(random: Random, belief: Belief) -> Iterator[tuple[Any, ...]]:
    """Puts and takes; and what was taken in earlier rounds is done with, or buried."""
    mine = sorted(belief.taken - belief.doubted)
    random.shuffle(mine)
    for _ in range(REQUESTS):
        what = random.random()
        if what < 0.5:
            data = b"%d " % len(belief.sent) + random.randbytes(random.choice((0, 20, 2_000)))
            belief.sent.append(data)
            yield "TUBE.PUT", "t", data, "UTUBE", random.choice(LANES)
        elif what < 0.8:
            yield "TUBE.TAKE", "t", 0
        elif mine:
            yield random.choice((*ENDS, "TUBE.BURY")), "t", mine.pop(0)


def work_and_kill(broker: RunningBroker, random: Random, belief: Belief) -> None:
    asked = list(requests(random, belief))
    answers = random.randrange(len(asked) // 4, len(asked) // 2)
    with broker.connect() as client:
        assert client.call("TUBE.IDENTIFY", "worker") == b"worker"
        client.send_bytes(b"".join(request(*words) for words in asked))
        for words in asked[:answers]:
            belief.hear(words, meaning(client.read()))
        broker.kill()
        for words in asked[answers:]:
            try:
                belief.hear(words, meaning(client.read()))  # on its way already
            except (EOFError, ConnectionResetError):
                belief.doubt(words)
    broker.restart()


def check(client: Client, belief: Belief) -> None:
    """What is there, in which state, and what is gone, is what was answered."""
    every = range(len(belief.sent))
    client.send_bytes(b"".join(request("TUBE.PEEK", "t", id) for id in every))
    replies = [meaning(client.read()) for _ in every]
    found = {id: reply for id, reply in enumerate(replies) if not isinstance(reply, Refusal)}
    numbers = [int(data.split()[0]) for _, _, data in found.values()]
    assert numbers == sorted(set(numbers)), "they are in the order in which they were sent"
    assert {data for _, _, data in found.values()} <= set(belief.sent)
    assert not found.keys() & belief.done
    assert belief.put.keys() - belief.done - belief.doubted <= found.keys()
    unheard_of = 0
    for id, (_, state, data) in found.items():
        assert belief.put.get(id, data) == data
        if id in belief.doubted:
            continue
        if id in belief.buried:
            assert state == b"!"
        elif id in belief.taken:
            assert state == b"t"
        else:
            assert state in (b"r", b"t")
            unheard_of += state == b"t"
    assert unheard_of <= belief.doubted_takes
    lane_takes(client, [id for id, (_, state, _) in found.items() if state == b"t"])


def lane_takes(client: Client, taken: list[int]) -> None:
    """The worker has what is taken, and may release it; then each lane gives its first."""
    assert client.call("TUBE.IDENTIFY", "worker") == b"worker"
    for id in taken:
        assert client.call("TUBE.RELEASE", "t", id)[:2] == [id, b"r"]
    given = [client.call("TUBE.TAKE", "t", 0, "LANE", lane)[0] for lane in LANES]
    assert client.call("TUBE.TAKE", "t", 0) is None, "every lane is busy"
    again = [client.call("TUBE.RELEASE", "t", id)[0] for id in given]
    assert [client.call("TUBE.TAKE", "t", 0)[0] for _ in LANES] == sorted(again)


@pytest.mark.parametrize("store", ["in memory", "on disk", "on Redis"])
def test_what_was_answered_is_so_after_any_number_of_kills(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    flags = {"in memory": [], "on disk": ["--maxmemory", "10000"]}.get(store)
    flags = stores.store_flags(request, "redis") if flags is None else flags
    random, belief = Random(1), Belief()
    with start_broker(tmp_path, "--session-ttr", "3600", *flags) as broker:
        with broker.connect() as client:
            assert client.call("TUBE.CREATE", "t", "utube", "WIDTH", 1) == 1
        for _ in range(ROUNDS):
            work_and_kill(broker, random, belief)

        assert belief.done
        assert belief.buried
        with broker.connect() as client:
            check(client, belief)
