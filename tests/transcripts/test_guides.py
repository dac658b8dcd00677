"""Guides with programs do what they say, from top to bottom, on a broker of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.facts.repository import ROOT
from tests.server.broker import start_broker
from tests.transcripts.guide import reader

# The page, and how many commands and values it shows.
GUIDES = {"migrate/celery.md": 3, "migrate/rq.md": 2, "testing.md": 2, "tuning.md": 4}


@pytest.mark.parametrize("page", GUIDES)
def test_following_a_guide_shows_what_it_says(page: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with (
        start_broker(tmp_path, "--fsync", "no") as broker,
        reader(tmp_path / "here", broker.port) as guide,
    ):
        guide.follow((ROOT / "docs" / page).read_text(encoding="utf-8"))

    assert guide.seen == GUIDES[page]
