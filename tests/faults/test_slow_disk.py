"""A disk that takes 200 ms for each sync: clients share the syncs, and nothing is lost."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.faults.test_failing_disk import broker_with
from tests.server.resp import request

SYNC_US = 200_000
CLIENTS = 25
ROUNDS = 4


def test_clients_share_the_syncs_of_a_slow_disk_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    slow = f"fdatasync:delay_exit={SYNC_US}"
    with broker_with(tmp_path, slow) as broker, ExitStack() as open_clients:
        clients = [open_clients.enter_context(broker.connect()) for _ in range(CLIENTS)]
        before = syncs(tmp_path)

        ids = set()
        for number in range(ROUNDS):
            for client in clients:
                client.send("ADDJOB", "jobs", number, 0, "RETRY", 0)
                client.send("RQ.PUSH", "elements", number)
            for client in clients:
                ids |= {client.value(), client.value()[0]}

        # One sync for each round would be ideal. A busy machine may deliver requests late.
        assert syncs(tmp_path) - before < CLIENTS * ROUNDS / 2
        assert len(ids) == 2 * CLIENTS * ROUNDS
        broker.kill()
        broker.before = ()
        broker.restart()
        with broker.connect() as client:
            client.send_bytes(request("GETJOB", "COUNT", 1000, "FROM", "jobs"))
            jobs = {row[1] for row in client.value()}
            elements = {row[1] for row in client.call("RQ.POP", "COUNT", 1000, "elements")}
        assert jobs | elements == ids


def syncs(folder: Path) -> int:
    """The number of syncs that strace has seen."""
    return (folder.parent / "strace.log").read_text().count("fdatasync(")
