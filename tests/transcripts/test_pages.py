"""What a page of the documentation shows at redis-cli's prompt is what one would see."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque.wire.inline import split_inline
from tests.transcripts.notation import ROOT
from tests.transcripts.redis_cli import as_shown, sessions
from tests.transcripts.stage import Stage

PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if any(sessions(path.read_text(encoding="utf-8")))
)

# The broker of this page has the driver that the page is about.
SETTINGS = {"drivers.md": {"drivers": "unique=examples.drivers.unique.quinque_unique:Unique"}}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_sessions_of_a_page_happen_as_shown(page: Path, tmp_path: Path) -> None:
    with Stage(tmp_path, protocol=2, settings=SETTINGS.get(page.name)) as stage:
        for exchange in sessions(page.read_text(encoding="utf-8")):
            stage.pass_time(exchange.later_ms)
            words = split_inline(exchange.typed.encode())
            assert words, exchange

            stage.send("a", [words])
            stage.settle()
            if exchange.took_ms:
                assert stage.replies() == {}, f"{page.name}:{exchange.line_number} did not wait"
                stage.pass_time(exchange.took_ms)

            reply = stage.replies().get("a", b"")
            assert as_shown(reply) == exchange.shown, f"{page.name}:{exchange.line_number}"


def test_a_nested_reply_is_indented_as_redis_cli_does() -> None:
    reply = b"*2\r\n*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n*0\r\n"

    assert as_shown(reply) == '1) 1) "a"\n   2) 1) (integer) 1\n      2) (nil)\n2) (empty array)\n'


def test_a_page_without_sessions_has_none() -> None:
    assert list(sessions("```console\n$ make run\n```\n")) == []
