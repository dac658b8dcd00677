"""A store that is worked, restarted and crashed beside a model of it.

Called by   the machines beside this file.
Calls       the store, and looks into its journal.

Segments are tiny, so that they fill, are compacted and go all the time, and compaction pauses every
few records, so that everything else happens in the middle of it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from tests.store.picture import check_indexes, every_message

START_MS = 1_700_000_000_000
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # no disk to wait for


class StoreMachine(RuleBasedStateMachine):
    """`model` is what the store should be like, `committed` what it was at its last commit."""

    model: Any
    committed: Any

    @initialize(
        segment_bytes=st.sampled_from((1, 250, 2_000)),
        maxmemory=st.sampled_from((0, 1, 600)),
        operations_a_turn=st.sampled_from((1, 1, 3, 1_000)),
        compacts_always=st.booleans(),
    )
    def begin(
        self, segment_bytes: int, maxmemory: int, operations_a_turn: int, compacts_always: bool
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quinque-model-", dir=FAST))
        self.settings: dict[str, Any] = {
            "segment_bytes": segment_bytes,
            "maxmemory": maxmemory,
            "fsync": "no",  # what a crash of the process leaves does not depend on it
            "chance": Random(maxmemory).randbytes,  # the same again when an example is
        }
        self.operations_a_turn = operations_a_turn
        self.compacts_always = compacts_always
        self.operations = 0
        self.begin_model()
        self.committed = deepcopy(self.model)
        self.open(START_MS)

    def begin_model(self) -> None:
        """There is a model of an empty store."""
        raise NotImplementedError

    def opened(self) -> None:
        """The store was opened anew: what the model does not share with it is forgotten."""
        raise NotImplementedError

    @rule()
    def commit(self) -> None:
        self.store.commit()

        self.committed = deepcopy(self.model)

    @rule(cut=st.sampled_from((None, 0.0, 0.3, 0.9, 1.0)))
    def crash(self, cut: float | None) -> None:
        """Between two turns, or in a commit: then a part of what it writes is in the file."""
        before = self.copied()
        ends = dict(self.store.journal.sizes)
        if cut is not None:
            committed = deepcopy(self.committed)
            self.commit()
            after = self.copied()
            last = max(ends)
            written_bytes = self.store.journal.sizes.get(last, ends[last]) - ends[last]
            if self.store.journal.segment == last and cut < 1:
                self.committed = committed
                shutil.copy(after / segment_name(last), before)
                end = ends[last] + int(written_bytes * cut)
                os.truncate(before / segment_name(last), end)
                shutil.rmtree(after)
            else:
                shutil.rmtree(before)
                before = after
        self.drop()
        self.folder = before
        now_ms = self.model.now_ms
        self.model = deepcopy(self.committed)
        self.open(now_ms)

    def end_operation(self) -> None:
        self.operations += 1
        if self.operations % self.operations_a_turn == 0:
            self.commit()

    def open(self, now_ms: int) -> None:
        """The store is open on the folder; the clock of the machine shows `now_ms`."""
        self.clock = ManualClock(now_ms * 1000)
        # The record is compared where two stores are (pair.py).
        keeping = Keeping(is_on=False)
        self.store = EmbeddedStore(self.folder, clock=self.clock, keeping=keeping, **self.settings)
        if self.compacts_always:
            sizes = self.store.journal.sizes
            compactor: Any = self.store._compactor
            compactor._is_worth_it = lambda: len(sizes) > 1
        self.opened()

    def check_books(self) -> None:
        """The indexes agree with each other, and what is said of bodies with the messages."""
        check_indexes(self.store)
        every = every_message(self.store)
        kept = self.store.bodies
        assert kept.count == len(every)
        assert kept.in_memory == sum(len(m.body) for m in every if m.body is not None)
        assert kept.on_disk == sum(m.body is None for m in every)
        assert kept.total_bytes == sum(len(kept.of(m)) for m in every)

    def copied(self) -> Path:
        """A copy of the folder as it is: what the process has not written is not in it."""
        copy = Path(tempfile.mkdtemp(prefix="quinque-model-", dir=FAST))
        return shutil.copytree(self.folder, copy, dirs_exist_ok=True)

    def drop(self) -> None:
        """The store and its folder are gone."""
        self.store.close()
        shutil.rmtree(self.folder)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.drop()


def segment_name(number: int) -> str:
    return f"{number:010d}.journal"
