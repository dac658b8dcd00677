"""Folders for stores with drivers: without a disk behind them, where that can be."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.workshop import Workshop

MEMORY = Path("/dev/shm")


@pytest.fixture
def workshop() -> Iterator[Callable[..., Workshop]]:
    """Opens a store with these drivers, and a tube of the first of them."""
    made = tempfile.mkdtemp(prefix="quinque-drivers-", dir=MEMORY if MEMORY.is_dir() else None)
    opened: list[Workshop] = []

    def open_one(options: dict[str, Any] | None = None, **drivers: Any) -> Workshop:
        opened.append(Workshop(Path(made) / str(len(opened)), drivers, **(options or {})))
        return opened[-1]

    yield open_one
    for one in opened:
        one.store.close()
    shutil.rmtree(made)
