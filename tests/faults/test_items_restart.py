"""A broker is killed while items are added, leased and completed: what was answered is so.

Requests are sent in one go, and it is killed after some of the replies. What was not answered may
have happened or not; what was answered has, and nothing else did.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, meaning, request

HOUR_MS = 3_600_000
REQUESTS = 400
ROUNDS = 3


class Belief:
    """What is known of the items, and what may be so."""

    def __init__(self) -> None:
        self.sent: dict[bytes, bytes] = {}  # data by id
        self.added: set[bytes] = set()  # answered, or seen
        self.leased: set[bytes] = set()
        self.done: set[bytes] = set()
        self.doubted: set[bytes] = set()  # of requests that were not answered
        self.doubted_leases = 0

    def hear(self, words: tuple[Any, ...], reply: Any) -> None:
        """The request was answered so."""
        if words[0] == "WQ.ADD":
            assert reply == 1
            self.added.add(words[2])
        elif words[0] == "WQ.LEASE":
            for id, data in reply:
                assert id not in self.leased | self.done, "it is somebody's, or done"
                assert data == self.sent[id]
                self.added.add(id)
                self.leased.add(id)
        else:
            assert reply == (words[2] in self.leased - self.done)
            self.done.add(words[2])

    def doubt(self, words: tuple[Any, ...]) -> None:
        """The request was not answered."""
        if words[0] == "WQ.LEASE":
            self.doubted_leases += words[4]
        else:
            self.doubted.add(words[2])


def requests(random: Random, belief: Belief, round_number: int) -> Iterator[tuple[Any, ...]]:
    """Additions and leases, and completions of what was leased in earlier rounds."""
    mine = sorted(belief.leased - belief.done - belief.doubted)
    for number in range(REQUESTS):
        what = random.random()
        if what < 0.6:
            id = b"%d-%d" % (round_number, number)
            belief.sent[id] = random.randbytes(random.choice((0, 20, 2_000)))
            yield "WQ.ADD", "mails", id, belief.sent[id]
        elif what < 0.8:
            yield "WQ.LEASE", "mails", HOUR_MS, "COUNT", random.randint(1, 3)
        elif mine:
            yield "WQ.COMPLETE", "mails", mine.pop(0)


def work_and_kill(broker: RunningBroker, random: Random, belief: Belief, number: int) -> None:
    asked = list(requests(random, belief, number))
    answers = random.randrange(len(asked) // 2)
    with broker.connect() as client:
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
    """What is queued, what is leased and what is gone is what was answered."""
    given: list[list[bytes]] = []
    while some := client.call("WQ.LEASE", "mails", HOUR_MS, "COUNT", 1_000):
        given += some
    ids = [id for id, _ in given]
    numbers = [[int(part) for part in id.split(b"-")] for id in ids]
    assert numbers == sorted(numbers), "they come as they were added"
    assert len(set(ids)) == len(ids)
    assert not set(ids) & (belief.leased | belief.done)
    assert set(ids) <= belief.added | belief.doubted
    assert all(data == belief.sent[id] for id, data in given)
    missing = belief.added - set(ids) - belief.leased - belief.done
    assert len(missing) <= belief.doubted_leases
    for id in belief.added | set(ids):
        is_there = client.call("WQ.COMPLETE", "mails", id)
        assert is_there == (id not in belief.done) or (id in belief.leased & belief.doubted)


def test_what_was_answered_is_so_after_any_number_of_kills(tmp_path: Path) -> None:
    random, belief = Random(1), Belief()
    with start_broker(tmp_path, "--maxmemory", "10000") as broker:
        for number in range(ROUNDS):
            work_and_kill(broker, random, belief, number)

        assert belief.done
        assert belief.leased - belief.done
        with broker.connect() as client:
            check(client, belief)
            assert client.call("WQ.LEN", "mails")[:2] == [b"queued", 0]
