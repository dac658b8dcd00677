"""Compaction that goes a few records at a time, and runs of a few messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quinque.engine.feed import feed
from quinque.stores.embedded import compact


@pytest.fixture(autouse=True, scope="module")
def _few_at_a_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "STEP_BYTES", 100)
        patch.setattr(feed, "RUN_MOST", 3)
        yield
