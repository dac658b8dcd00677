"""What a page of the documentation shows at redis-cli's prompt is what one would see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

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

READS_MS: Final = 20_000  # a person reads, and types the next command

ID: Final = re.compile(r"D-[0-9a-f]{8}-[\w+/]{24}-[0-9a-f]{4}|\b17[0-9]{14}\b|\b17[0-9]{11}-[0-9]+")
# Numbers that the clock changes: fields with these names, and times since 1970 with the
# milliseconds since then.
CLOCK: Final = re.compile(
    r'(?P<name>"(?:age|idle|ttl|ctime|place|[\w-]+-within|\w+-ms|\w+-us)"\n *[0-9]+\) )'
    r"\(integer\) [0-9]+"
)
SINCE: Final = re.compile(r"\(integer\) 17[0-9]{11}\n *[0-9]+\) \(integer\) [0-9]+")
LEFT: Final = re.compile(r"\(integer\) [0-9]{4,}")
PACKED: Final = re.compile(r'"\\x9a.*"')


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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_reader_who_takes_time_sees_what_a_page_shows(page: Path, tmp_path: Path) -> None:
    """Twenty seconds pass before each command. Only ids and numbers of the clock may differ."""
    ids: dict[str, str] = {}
    with Stage(tmp_path, protocol=2, settings=SETTINGS.get(page.name)) as stage:
        for exchange in sessions(page.read_text(encoding="utf-8")):
            stage.pass_time(exchange.later_ms + READS_MS)
            typed = ID.sub(lambda found: ids[found[0]], exchange.typed)
            words = split_inline(typed.encode())
            assert words, exchange
            stage.send("a", [words])
            stage.settle()
            reply = stage.replies().get("a", b"")
            if not reply:
                stage.pass_time(exchange.took_ms)
                reply = stage.replies().get("a", b"")

            shown = as_shown(reply)
            assert _timeless(shown) == _timeless(exchange.shown), (
                f"{page.name}:{exchange.line_number}"
            )
            ids.update(zip(ID.findall(exchange.shown), ID.findall(shown), strict=True))


def _timeless(shown: str) -> str:
    shown = CLOCK.sub(r"\g<name>(a time)", PACKED.sub("(packed)", ID.sub("(an id)", shown)))
    return LEFT.sub("(a time)", SINCE.sub("(a time)", shown))


def test_a_nested_reply_is_indented_as_redis_cli_does() -> None:
    reply = b"*2\r\n*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n*0\r\n"

    assert as_shown(reply) == '1) 1) "a"\n   2) 1) (integer) 1\n      2) (nil)\n2) (empty array)\n'


def test_a_page_without_sessions_has_none() -> None:
    assert list(sessions("```console\n$ make run\n```\n")) == []
