"""The power fails under load: all that was acknowledged with `fsync = always` was on the disk."""

from __future__ import annotations

from pathlib import Path

from tests.faults.disks import CuttableDisk
from tests.faults.kill_loop import report, run
from tests.server.broker import RunningBroker, start_broker


def test_ten_power_cuts_lose_nothing_acknowledged_and_deliver_nothing_acked(
    tmp_path: Path,
) -> None:
    with CuttableDisk(tmp_path / "disk", size_mb=128) as disk:

        def cut(broker: RunningBroker) -> None:
            # What it has not synced is in the kernel's memory, and goes with the power.
            broker.kill()
            disk.cut_power()
            disk.power_on()

        outcome = run(tmp_path / "disk", rounds=10, seed=3, before=disk.before, kill=cut)

    assert outcome.is_good, "\n".join(report(outcome))


def test_the_cut_is_real_what_was_not_synced_is_gone(tmp_path: Path) -> None:
    with (
        CuttableDisk(tmp_path / "disk", size_mb=64) as disk,
        start_broker(tmp_path / "disk", "--fsync", "no", before=disk.before) as broker,
    ):
        with broker.connect() as client:
            assert client.call("QADD", "q", 600, "body") is not None
        broker.kill()
        disk.cut_power()
        disk.power_on()
        broker.restart()

        with broker.connect() as client:
            assert client.call("QGET", "q", "g") is None
