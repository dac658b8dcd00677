"""An empty queue whose runs are short, and time that begins at 1,000."""

from __future__ import annotations

import pytest

from quinque.engine.feed import feed
from quinque.engine.feed.feed import Feed
from quinque.model.families import EVENTS


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Feed:
    monkeypatch.setattr(feed, "RUN_MOST", 3)
    return Feed(b"q", EVENTS)
