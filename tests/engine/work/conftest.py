"""An empty worklist, and time that begins at 1,000."""

from __future__ import annotations

import pytest

from quinque.engine.work.directory import Directory
from quinque.engine.work.worklist import Worklist
from quinque.model.families import JOBS
from tests.engine.work.steps import NOW_MS


@pytest.fixture
def worklist() -> Worklist:
    return Worklist(b"w", JOBS, Directory(), NOW_MS)
