"""Bodies that look like batches of the journal: the store takes none of them for a batch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from quinque.model.events import FLUSHED, OPENED, STORED, Flushed, Opened
from quinque.model.families import EVENTS
from quinque.model.ops import Count, Put
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import records
from quinque.stores.embedded.records import (
    HEADER_BYTES,
    Batch,
    batch_body,
    batch_header,
    read_batches,
)
from quinque.stores.embedded.repair import carry_out, plan
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.embedded.survey import survey


def fake_batch(synced: int = 0) -> bytes:
    """What a client can make of all that the documentation says."""
    body = batch_body([msgpack.packb(Flushed(FLUSHED, b"victim"))])
    return batch_header(body, 1, synced) + body


def put(store: EmbeddedStore, queue: bytes, *bodies: bytes) -> None:
    store.run(Put(EVENTS, queue, list(bodies)))
    store.commit()


def batches(path: Path) -> list[Batch]:
    return [batch for batch in read_batches(path.read_bytes()) if isinstance(batch, Batch)]


def flip(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for at in places:
        data[at] ^= 1
    path.write_bytes(data)


def repair(folder: Path) -> None:
    for step in plan(survey(folder)):
        carry_out(step)
    assert not survey(folder).damaged


def counts(folder: Path, clock: ManualClock) -> dict[bytes, int]:
    store = EmbeddedStore(folder, clock=clock)
    rows = store.run(Count(EVENTS))
    store.close()
    return {row.queue: row.total for row in rows}


@pytest.mark.parametrize(
    ("also", "segment_bytes"),
    [
        ("", 1 << 20),
        ("the first batch", 1 << 20),
        ("the first batch", 1),
        ("the first batch and the manifest", 1),
    ],
)
def test_a_repair_does_not_carry_out_records_that_a_client_wrote_into_a_body(
    folder: Path, clock: ManualClock, also: str, segment_bytes: int
) -> None:
    store = EmbeddedStore(folder, clock=clock, segment_bytes=segment_bytes)
    put(store, b"victim", b"1", b"2", b"3")
    put(store, b"mallory", 2 * fake_batch())
    put(store, b"other", b"later")
    store.close()
    (path,) = (it for it in folder.glob("*.journal") if b"mallory" in it.read_bytes())
    (batch,) = (it for it in batches(path) if b"mallory" in it.body)
    flip(path, batch.start + 5, *([10] if also else []))
    if also.endswith("manifest"):
        for manifest in folder.glob("*.manifest"):
            manifest.write_bytes(b"")

    repair(folder)

    assert counts(folder, clock) == {b"victim": 3, b"other": 1}


@pytest.mark.parametrize("at", [0, 5, 10, 30, HEADER_BYTES + 2, HEADER_BYTES + 12])
def test_a_damaged_first_batch_costs_no_message(folder: Path, clock: ManualClock, at: int) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"q", b"1")
    put(store, b"q", b"2")
    store.close()
    flip(folder / "0000000001.journal", at)

    repair(folder)

    assert counts(folder, clock) == {b"q": 2}


def test_a_first_sector_of_zeros_is_damage_and_not_a_torn_end(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"lost", b"x" * 512)
    put(store, b"q", b"2")
    store.close()
    path = folder / "0000000001.journal"
    path.write_bytes(bytes(512) + path.read_bytes()[512:])

    (problem,) = survey(folder).damaged
    assert problem.at == 0
    repair(folder)

    assert counts(folder, clock) == {b"q": 1}


def test_a_torn_end_is_one_whatever_its_bodies_say_of_later_batches(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"q", b"acknowledged")
    put(store, b"q", fake_batch(synced=1 << 40) + b"x" * 10_000)
    store.close()
    path = folder / "0000000001.journal"
    data = path.read_bytes()
    last = batches(path)[-1]
    path.write_bytes(data[: last.end - 5_000] + bytes(10_000))

    assert counts(folder, clock) == {b"q": 1}


def test_a_segment_without_a_seal_is_read_and_the_next_one_has_a_seal(
    folder: Path, clock: ManualClock
) -> None:
    folder.mkdir(exist_ok=True)
    stored = (STORED, b"q", EVENTS.code, 1, 0, False, None, None, [b"1"])
    old = b""
    for record in (Opened(OPENED, 1, 1, 0, 0)[:5], stored):
        body = batch_body([msgpack.packb(record)])
        old += batch_header(body, 1, len(old)) + body
    (folder / "0000000001.journal").write_bytes(old)

    store = EmbeddedStore(folder, clock=clock)
    put(store, b"q", b"2")
    put(store, b"q", b"3")
    seals = dict(store.journal.seals)
    store.close()

    assert list(seals) == [1, 2]
    assert seals[1] == 0 != seals[2]
    assert counts(folder, clock) == {b"q": 3}
    flip(folder / "0000000001.journal", 5)
    repair(folder)
    assert counts(folder, clock) == {b"q": 3}


def calls_of(work: Callable[[], Any]) -> int:
    """How many calls of C functions, each of which looks at some bytes, the work takes."""
    calls = 0

    def count(frame: object, event: str, function: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.skipif(
    not str(records.__file__).endswith(".py"), reason="calls of compiled code are not counted"
)
@pytest.mark.parametrize("kind", ["a body of markers", "every second batch is damaged"])
def test_looking_at_damage_takes_steps_in_proportion_to_the_bytes(folder: Path, kind: str) -> None:
    calls: list[int] = []
    for size in (50, 400):
        store = EmbeddedStore(folder / str(size), clock=ManualClock())
        if kind == "a body of markers":
            put(store, b"q", b"QnqB" * size)
        else:
            for _ in range(size):
                put(store, b"q", b"body")
        put(store, b"q", b"later")
        store.close()
        path = folder / str(size) / "0000000001.journal"
        flip(path, *(batch.start + 8 for batch in batches(path)[1:-1:2]))

        calls.append(calls_of(lambda path=path: survey(path.parent)))  # type: ignore[misc]

    assert calls[1] < 10 * calls[0]
