"""Several clients of Tarantool's protocol send random packets in random pieces; a model predicts
every reply.

Each client has a tube of its own, so the model needs no order between clients. Their bytes are cut
anywhere and interleaved, and replies are read only after everything was sent. Replies of some
megabytes fill the sockets, so requests wait at the broker while others arrive. Some clients send
broken bytes, and connect again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.model.effort import effort
from tests.server.broker import RunningBroker, start_broker
from tests.server.iproto import EVAL, LISTEN, PING, IprotoClient, Reply, call, packet
from tests.server.test_fuzzed_socket import cut, send_interleaved

CLIENTS = 3
LARGE_BYTES = 2_000_000  # several are more than a socket holds for a client that does not read

Words = tuple[str | int, ...]
Round = tuple[tuple[Sequence[Words], list[int], bytes | None], ...]  # a turn of each client

BODIES = st.sampled_from(["", "x", "y" * 2_000])
IDS = st.integers(0, 5)
REQUESTS: st.SearchStrategy[Words] = st.one_of(
    st.tuples(st.sampled_from(["put", "eval"]), BODIES),
    st.tuples(st.sampled_from(["ack", "release", "peek", "bury", "delete"]), IDS),
    st.tuples(st.just("kick"), st.integers(1, 3)),
    st.sampled_from([("take", 0), ("large", 0), ("ping", 0), ("nosuch", 0)]),
)
BROKEN = st.sampled_from([b"\xc1", b"\xce\xff\xff\xff\xff", b"\xce\x00\x00\x00\x01\xc1"])
TURNS = st.tuples(
    st.lists(REQUESTS, max_size=12), st.lists(st.integers(1, 200)), st.one_of(st.none(), BROKEN)
)
ROUNDS = st.lists(st.tuples(*[TURNS] * CLIENTS), min_size=1, max_size=4)
# More than the sockets hold for a client that sends and does not read, in small pieces.
WORK: list[Words] = [("put", "x"), ("take", 0), ("ack", 1), ("peek", 0)]
LARGE: list[Words] = [("large", 0), *[("peek", 0)] * 8, *WORK * 20]
FULL: list[Round] = [((LARGE, [40] * 120, None), ([], [], None), ([], [], None))]
# The states of a task in which a call is carried out, unless that is every state; and the state
# after it.
ALLOWED = {"ack": "t", "release": "t"}
AFTER = {"ack": "-", "release": "r", "bury": "!", "delete": "-"}

_tubes = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """On an embedded store: on Redis, requests of one connection may overtake each other."""
    with start_broker(tmp_path_factory.mktemp("broker"), *LISTEN, "--fsync", "no") as running:
        yield running


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of a long example
@effort(examples=25)
@given(ROUNDS)
@example(FULL)
def test_every_reply_is_the_one_that_a_model_predicts(
    broker: RunningBroker, rounds: list[Round]
) -> None:
    peers = [Peer(broker) for _ in range(CLIENTS)]
    try:
        for turns in rounds:
            pieces = [
                cut(peer.packed(words) + (broken or b""), lengths)
                for peer, (words, lengths, broken) in zip(peers, turns, strict=True)
            ]

            send_interleaved([peer.client for peer in peers], pieces)

            for number, (_, _, broken) in enumerate(turns):
                peers[number].check(is_broken=broken is not None)
                if broken is not None:
                    peers[number].client.close()
                    peers[number] = Peer(broker)
    finally:
        for peer in peers:
            peer.client.close()


class Peer:
    """A client, and its tube as it must be after the requests that were sent."""

    def __init__(self, broker: RunningBroker) -> None:
        self.client = IprotoClient(broker)
        self._name = f"fuzzed{next(_tubes)}"
        self._tasks: dict[int, tuple[str, str]] = {}  # states and data, by number
        self._next = 0
        self._syncs = count(1)
        self._expected: dict[int, Any] = {}  # data of replies, by request; None for an error
        assert self.client.told("queue.create_tube", self._name, "fifo") == [True]

    def packed(self, requests: Sequence[Words]) -> bytes:
        """Return the packets, and carry the requests out on the model."""
        return b"".join(self._packed(next(self._syncs), *words) for words in requests)

    def _packed(self, sync: int, verb: Any, arg: Any) -> bytes:
        tube = f"queue.tube.{self._name}"
        if verb == "ping":
            self._expected[sync] = []
            return packet(PING, sync)
        if verb == "nosuch":
            self._expected[sync] = None
            return call(sync, f"{tube}:nosuch")
        if verb == "large":
            verb, arg = "put", "z" * LARGE_BYTES
        self._expected[sync] = self._carried_out(verb, arg)
        if verb == "eval":
            return packet(EVAL, sync, {0x27: f"return {tube}:put(...)", 0x21: [arg]})
        return call(sync, f"{tube}:{verb}", arg)

    def _carried_out(self, verb: str, arg: Any) -> Any:
        tasks = self._tasks
        if verb in ("put", "eval"):
            number, self._next = self._next, self._next + 1
            tasks[number] = "r", arg
            return [[number, "r", arg]]
        if verb in ("take", "kick"):
            wanted, most = ("r", 1) if verb == "take" else ("!", arg)
            found = [number for number in sorted(tasks) if tasks[number][0] == wanted][:most]
            state = "t" if verb == "take" else "r"
            for number in found:
                tasks[number] = state, tasks[number][1]
            if verb == "kick":
                return [len(found)]
            return [[number, *tasks[number]] for number in found]
        if arg not in tasks or tasks[arg][0] not in ALLOWED.get(verb, "rt!"):
            return None
        state, data = tasks[arg]
        if verb != "peek":
            state = AFTER[verb]
            tasks[arg] = state, data
            if state == "-":
                del tasks[arg]
        return [[arg, state, data]]

    def check(self, *, is_broken: bool) -> None:
        """Read a reply for each request; after broken bytes, one more and the end."""
        while self._expected:
            reply = self.client.read()
            assert self._meaning(reply) == self._expected.pop(reply.sync), reply.sync
        if is_broken:
            assert [(reply.sync, reply.error) for reply in self.client.read_to_end()] == [(0, 20)]

    def _meaning(self, reply: Reply) -> Any:
        return None if reply.error else reply.body.get(0x30, [])
