"""An empty queue, and time that begins at 1,000."""

from __future__ import annotations

import pytest

from quinque.engine.queue import Queue
from quinque.model.families import EVENTS


@pytest.fixture
def queue() -> Queue:
    return Queue(b"q", EVENTS)
