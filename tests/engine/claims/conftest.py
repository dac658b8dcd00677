"""A worklist with a subscription, and time that begins at 1,000."""

from __future__ import annotations

import pytest

from tests.engine.claims.steps import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()
