"""Compaction that goes a few records at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quinque.stores.embedded import compact


@pytest.fixture(autouse=True, scope="module")
def _compaction_pauses_often() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "STEP_BYTES", 100)
        yield
