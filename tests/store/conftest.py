"""A folder without a disk behind it, where there is one: these tests open thousands of stores."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; it is gone after the test."""
    made = tempfile.mkdtemp(prefix="quinque-store-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(made)
    shutil.rmtree(made)
