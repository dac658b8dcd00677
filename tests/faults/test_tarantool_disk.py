"""A disk that fails, as clients of Tarantool's protocol see it: each change that may be lost is an
error."""

from __future__ import annotations

from pathlib import Path

from tests.faults.test_failing_disk import broker_with
from tests.server.iproto import LISTEN, PING, IprotoClient, Reply, call, packet


def test_every_change_of_a_turn_that_could_not_be_synced_is_an_error_of_its_own(
    tmp_path: Path,
) -> None:
    with broker_with(tmp_path, "fdatasync:error=EIO:when=8", *LISTEN) as broker:
        with IprotoClient(broker) as peer:
            assert peer.told("queue.create_tube", "t", "fifo") == [True]
            acknowledged = 0
            while not (replies := three_puts(peer))[-1].error:
                acknowledged += 3

            assert acknowledged
            assert [(reply.sync, reply.error) for reply in replies] == [
                *((0, 0), (1, 40), (2, 40), (3, 40))
            ]
            assert replies[3].text.startswith("UNAVAILABLE ")
            assert peer.read_to_end() == [], "the connection is closed"

        with IprotoClient(broker) as other:
            assert other.ask(packet(PING, 7)).sync == 7
            refused = other.told("queue.tube.t:put", "later")
            assert isinstance(refused, Reply)
            assert refused.error == 40
        broker.kill()
        broker.before = ()
        broker.restart()
        with IprotoClient(broker) as peer:
            assert peer.told("queue.statistics", "t")[0]["tasks"]["ready"] >= acknowledged


def three_puts(peer: IprotoClient) -> list[Reply]:
    """The replies to a look and three puts that were sent together."""
    puts = [call(sync, "queue.tube.t:put", "x") for sync in (1, 2, 3)]
    peer.send(packet(PING, 0), *puts)
    return [peer.read() for _ in range(4)]
