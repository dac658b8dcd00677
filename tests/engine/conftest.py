"""An empty queue, and time that begins at 1,000."""

from __future__ import annotations

import pytest

from quinque.engine.feed.feed import Feed
from quinque.model.families import EVENTS


@pytest.fixture
def queue() -> Feed:
    return Feed(b"q", EVENTS)
