"""A process that claims is killed at any moment: nothing is lost, nothing is claimed twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest

from quinque.model.claim_ops import ClaimState, LookAtClaims, ReadClaim
from quinque.model.families import JOBS
from quinque.model.look_ops import BrowsePlaces
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.picture import check_indexes

PROGRAM = Path(__file__).with_name("claiming_process.py")


class Known:
    """What the processes said they had done, so far."""

    def __init__(self) -> None:
        self.added: set[str] = set()
        self.open: dict[int, list[str]] = {}
        self.settled: dict[int, list[str]] = {}
        self.published = 0

    def hear(self, what: str, of: Any) -> None:
        if what == "added":
            self.added.update(of)
        elif what == "claimed":
            self.open[of[0]] = of[1]
        elif what == "published":
            self.published += 1
        else:
            ended = {number: ids for number, ids in self.open.items() if number <= of}
            self.open = {number: ids for number, ids in self.open.items() if number > of}
            if what == "settled":
                self.settled.update(ended)


def run_to_its_own_end(folder: Path, seed: int, what: str, count: int, known: Known) -> None:
    """A process kills itself once its `count`-th `what` is durable, before it says so."""
    process = subprocess.run(
        [sys.executable, PROGRAM, str(folder), str(seed), what, str(count)],
        stdout=subprocess.PIPE,
        check=False,
    )
    for line in process.stdout.splitlines():
        known.hear(*json.loads(line))
    assert process.returncode < 0, "it was killed, and did not end by itself"


def run_and_kill(folder: Path, seed: int, lines: int, known: Known) -> None:
    """A process works until it has said so much, and is killed."""
    process = subprocess.Popen(
        [sys.executable, PROGRAM, str(folder), str(seed)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for number, line in enumerate(process.stdout):
        known.hear(*json.loads(line))
        if number == lines:
            break
    process.kill()
    for line in process.stdout:
        if line.endswith(b"\n"):
            known.hear(*json.loads(line))
    process.stdout.close()
    assert process.wait() < 0, "it was killed, and did not end by itself"


def check(folder: Path, known: Known) -> None:
    store = EmbeddedStore(folder)
    check_indexes(store)
    view = store.run(LookAtClaims(b"w", b"s"))
    assert view is not None
    held: Counter[str] = Counter(names_in(store, b"w"))
    for claim in view.claims:
        if claim.state == ClaimState.FORFEITED:
            continue
        rows: list[str] = []
        if claim.state != ClaimState.FILLING:
            op = ReadClaim(b"w", b"s", claim.number, 0, 999)
            rows = [row[0].decode() for it in store.run(op) for row in msgpack.unpackb(it)]
            assert rows == known.open.get(claim.number, rows), "it has other messages"
        else:
            found = store.subscriptions.find(b"w", b"s")
            assert found is not None
            for chunk in found.claims[claim.number].in_order():
                rows += [id.decode() for id in msgpack.unpackb(chunk.ids)]
        if claim.state != ClaimState.SETTLED:
            assert claim.number not in known.settled
            held.update(rows)
        if claim.state == ClaimState.SEALED:
            # Killed before it said so: a later settle ends this claim too.
            known.open[claim.number] = rows
    assert max(held.values(), default=1) == 1, "one message is in two places"
    finished = {id for ids in known.settled.values() for id in ids}
    assert not finished & held.keys(), "it was settled, and is there"
    # The last step of the process may be done though it did not say so.
    maybe = {id for number, ids in known.open.items() if number <= view.settled for id in ids}
    assert known.added - held.keys() <= finished | maybe, "one that was added is lost"
    if maybe:
        known.hear("released" if maybe & held.keys() else "settled", view.settled)
    put = names_in(store, b"p")
    assert len(put) - 5 * known.published in (0, 5)
    known.published = len(put) // 5
    store.close()


def names_in(store: EmbeddedStore, queue: bytes) -> list[str]:
    names: list[str] = []
    after, is_last = 0, False
    while not is_last:
        page = store.run(BrowsePlaces(JOBS, queue, after, 0, 10_000))
        names += [row[0].decode() for row in msgpack.unpackb(page.rows)]
        after, is_last = page.place, page.is_last
    return names


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_twice(folder: Path, seed: int) -> None:
    random = Random(seed)
    known = Known()

    for start in range(4):
        run_and_kill(folder, 10 * seed + start, random.randint(1, 60), known)
        check(folder, known)

    assert known.settled


@pytest.mark.parametrize("what", ["added", "claimed", "settled", "released", "published"])
def test_killed_between_the_sync_and_the_word_nothing_is_lost(folder: Path, what: str) -> None:
    known = Known()

    for start in range(3):
        run_to_its_own_end(folder, start, what, 3, known)
        check(folder, known)

    assert known.settled
