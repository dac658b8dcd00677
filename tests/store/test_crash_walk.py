"""Random work of all families, killed at every call of the file system, loses and swaps nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque.stores.embedded.store import EmbeddedStore
from tests.model.effort import EFFORT
from tests.store.crash_walk import Walk
from tests.store.picture import picture_of, picture_of_claims

TURNS = 150


def look_of(store: EmbeddedStore) -> object:
    return picture_of(store), picture_of_claims(store)


@pytest.mark.usefixtures("compaction_pauses_often")
@pytest.mark.parametrize("seed", range(5, 5 + 5 * max(1, EFFORT)))
def test_killed_at_any_call_of_the_file_system_a_store_is_as_it_was_committed(
    folder: Path, seed: int
) -> None:
    walk = Walk(folder, seed, look_of)

    walk.go(TURNS)

    assert walk.copies > TURNS
    assert walk.dropped > 5
