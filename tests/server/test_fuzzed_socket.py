"""Several clients send random requests in random pieces; a model predicts every reply.

Each client has queues of its own, so the model needs no order between clients. Their bytes are cut
anywhere and interleaved, and replies are read only after everything was sent. Replies of a few
megabytes fill the sockets, so requests wait at the broker while others arrive. Some clients send
broken bytes, and connect again.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.model.effort import effort
from tests.server.broker import RunningBroker
from tests.server.iproto import IprotoClient
from tests.server.resp import TIMEOUT_S, Client, Refusal, request
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

CLIENTS = 3
LARGE_BYTES = 3_000_000  # more than a socket holds for a client that does not read
ACKED = 3  # ids that a request names, the first of those that the client knows

AnyClient = Client | IprotoClient
Words = tuple[bytes | str | int, ...]
Round = tuple[tuple[list[Words], list[int], bytes | None], ...]  # a turn of each client

BODIES = st.sampled_from([b"", b"x", b"\r\n$-1\r\n", b"y" * 2_000])
NAMES = st.sampled_from(["a", "b"])
REQUESTS: st.SearchStrategy[Words] = st.one_of(
    st.tuples(st.just("ECHO"), BODIES),
    st.just(("LARGE",)),
    st.tuples(st.just("NOSUCH"), BODIES),
    st.builds(lambda name, bodies: ("RQ.PUSH", name, *bodies), NAMES, st.lists(BODIES, min_size=1)),
    st.tuples(st.just("RQ.POP"), st.just("COUNT"), st.integers(0, 4), NAMES),
    st.tuples(st.just("RQ.ACK"), NAMES),
    st.tuples(st.just("RQ.INFO"), NAMES),
    st.tuples(st.just("DEL"), NAMES),
    st.tuples(st.just("RENAME"), NAMES, NAMES),
    st.tuples(st.just("HELLO"), st.sampled_from([2, 3])),
)
BROKEN = st.sampled_from([b"*1\r\nX\r\n", b"*1\r\n$-5\r\n", b"*99999999999\r\n"])
# What one client sends in a round: requests, the lengths of its pieces, broken bytes at the end.
TURNS = st.tuples(
    st.lists(REQUESTS, max_size=12), st.lists(st.integers(1, 200)), st.one_of(st.none(), BROKEN)
)
ROUNDS = st.lists(st.tuples(*[TURNS] * CLIENTS), min_size=1, max_size=4)
# More than the sockets hold for a client that sends and does not read.
FULL: list[Round] = [(([("LARGE",)] * 12, [], None), ([], [], None), ([], [], None))]

_examples = count()


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of a long example
@effort(examples=25)
@given(ROUNDS)
@example(FULL)
def test_every_reply_is_the_one_that_a_model_predicts(
    broker: RunningBroker, rounds: list[Round]
) -> None:
    run = next(_examples)
    models = [Model(f"{{{run}-{number}}}") for number in range(CLIENTS)]
    clients = [broker.connect() for _ in range(CLIENTS)]
    try:
        for turns in rounds:
            asked = [
                [model.complete(words) for words in turn[0]]
                for model, turn in zip(models, turns, strict=True)
            ]
            pieces = [
                cut(b"".join(request(*words) for words in own) + (broken or b""), lengths)
                for own, (_, lengths, broken) in zip(asked, turns, strict=True)
            ]

            send_interleaved(clients, pieces)

            for number, (_, _, broken) in enumerate(turns):
                for words in asked[number]:
                    models[number].check(words, clients[number].value())
                if broken is not None:
                    refusal = clients[number].value()
                    assert isinstance(refusal, Refusal), refusal
                    assert refusal.text.startswith("ERR Protocol error"), refusal
                    assert clients[number].read_to_end() == b""
                    clients[number].close()
                    clients[number] = broker.connect()
    finally:
        for client in clients:
            client.close()


class Model:
    """The reliable queues of one client, as they must be after the requests that were answered."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._undelivered: dict[str, list[bytes]] = {}  # ids, by queue
        self._delivered: dict[str, list[bytes]] = {}
        self._bodies: dict[bytes, bytes] = {}

    def complete(self, words: Words) -> Words:
        """Return the request with the client's own queue names, and with ids to ack."""
        verb, *rest = words
        if verb == "LARGE":
            return "ECHO", b"z" * LARGE_BYTES
        if verb in ("ECHO", "NOSUCH", "HELLO"):
            return words
        named = [f"{self._tag}{word}" if word in ("a", "b") else word for word in rest]
        held = [id for ids in self._delivered.values() for id in ids]
        return (verb, *named, *(held[:ACKED] or [b"1-1"])) if verb == "RQ.ACK" else (verb, *named)

    def check(self, words: Words, reply: object) -> None:
        """Compare a reply with the model, then carry the request out on the model."""
        verb, first = words[0], words[1]
        assert isinstance(first, (str, bytes, int))
        match verb:
            case "ECHO":
                assert reply == first
            case "NOSUCH":
                assert isinstance(reply, Refusal)
                assert "unknown command" in reply.text
            case "HELLO":
                pairs = reply if isinstance(reply, list) else [*sum(_items(reply), ())]
                assert pairs[pairs.index(b"proto") + 1] == first
            case "RQ.POP":
                self._check_pop(str(words[3]), int(words[2]), reply)
            case _:
                {
                    "RQ.PUSH": self._check_push,
                    "RQ.ACK": self._check_ack,
                    "RQ.INFO": self._check_info,
                    "DEL": self._check_del,
                    "RENAME": self._check_rename,
                }[str(verb)](str(first), words[2:], reply)

    def _check_push(self, name: str, bodies: Words, reply: object) -> None:
        assert isinstance(reply, list)
        assert not self._bodies.keys() & set(reply), "an id was given before"
        self._bodies |= zip(reply, bodies, strict=True)  # type: ignore[arg-type]
        self._undelivered.setdefault(name, []).extend(reply)
        self._delivered.setdefault(name, [])

    def _check_pop(self, name: str, most: int, reply: object) -> None:
        ids = self._undelivered.get(name, [])
        taken, ids[:most] = ids[:most], []
        assert reply == [[name.encode(), id, self._bodies[id]] for id in taken]
        if taken:
            self._delivered[name] += taken

    def _check_ack(self, name: str, ids: Words, reply: object) -> None:
        if name not in self._delivered:
            assert reply is None
            return
        held = self._delivered[name]
        assert reply == [id for id in ids if id in held]
        self._delivered[name] = [id for id in held if id not in ids]

    def _check_info(self, name: str, _: Words, reply: object) -> None:
        if name not in self._undelivered:
            assert reply == Refusal("EMPTYKEY")
            return
        counts = len(self._undelivered[name]), len(self._delivered[name])
        assert reply == [b"undelivered", counts[0], b"delivered", counts[1]]

    def _check_del(self, name: str, _: Words, reply: object) -> None:
        assert reply == int(name in self._undelivered)
        self._undelivered.pop(name, None)
        self._delivered.pop(name, None)

    def _check_rename(self, name: str, new: Words, reply: object) -> None:
        if name not in self._undelivered:
            assert reply == Refusal("ERR no such key")
            return
        assert reply == b"OK"
        self._undelivered[str(new[0])] = self._undelivered.pop(name)
        self._delivered[str(new[0])] = self._delivered.pop(name)


def cut(data: bytes, lengths: list[int]) -> Iterator[bytes]:
    """Yield the bytes in pieces of these lengths, and the rest as one piece."""
    for length in lengths:
        if len(data) > length:
            yield data[:length]
            data = data[length:]
    if data:
        yield data


def send_interleaved(clients: Sequence[AnyClient], pieces: list[Iterator[bytes]]) -> None:
    """Send one piece of each client in turn, and read replies only when no socket takes more."""
    left: dict[AnyClient, tuple[bytes, Iterator[bytes]]] = {}
    for client, own in zip(clients, pieces, strict=True):
        left[client] = b"", own
    while left:
        sent_some = False
        for client, (data, own) in list(left.items()):
            data = data or next(own, b"")
            try:
                sent = client.send_some(data) if data else 0
            except ConnectionError:  # the broker has seen broken bytes, and closed
                data = b""
            if not data:
                del left[client]
                continue
            left[client] = data[sent:], own
            sent_some |= sent > 0
        if left and not sent_some:
            _wait_and_receive(list(left))


def _wait_and_receive(clients: list[AnyClient]) -> None:
    owners = {client.sock: client for client in clients}
    readable, writable, _ = select.select(owners, owners, (), TIMEOUT_S)
    assert readable or writable, "the broker neither reads nor answers"
    for sock in readable:
        owners[sock].receive_waiting()


def _items(reply: object) -> list[tuple[object, object]]:
    assert isinstance(reply, dict)
    return list(reply.items())
