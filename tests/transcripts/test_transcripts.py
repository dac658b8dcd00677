"""Every transcript of the documentation happens as it is written, in both protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import stores
from tests.transcripts.notation import FOLDER, parse, transcript_paths
from tests.transcripts.player import Player

# What of a reply depends on how many servers there are: each primary of the cluster has a replica.
_NODES = {"as many nodes; there is one": "as many nodes; there are 2"}
# And drivers need an embedded store.
_KINDS = {"tube type lifo": "tube type lifo; drivers need an embedded store"}
ELSEWHERE = {"cluster": _NODES | _KINDS, "redis": _KINDS}


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(
    "path", transcript_paths(), ids=lambda path: path.relative_to(FOLDER).as_posix()
)
def test_it_happens_as_written(path: Path, protocol: int, tmp_path: Path) -> None:
    transcript = parse(path.read_text(encoding="utf-8"))

    Player(transcript, tmp_path, protocol).play()  # raises AssertionError at the first difference


@pytest.mark.parametrize(
    "path", transcript_paths(), ids=lambda path: path.relative_to(FOLDER).as_posix()
)
def test_it_happens_so_too_when_the_store_answers_later(path: Path, tmp_path: Path) -> None:
    transcript = parse(path.read_text(encoding="utf-8"))

    Player(transcript, tmp_path, 3, is_late=True).play()


@pytest.mark.parametrize("kind", stores.SHARED)
@pytest.mark.parametrize(
    "path", transcript_paths(), ids=lambda path: path.relative_to(FOLDER).as_posix()
)
def test_it_happens_so_too_on_redis(
    path: Path, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8")
    for alone, elsewhere in ELSEWHERE.get(kind, {}).items():
        text = text.replace(alone, elsewhere)
    transcript = parse(text)
    url = stores.empty_store_url(request, kind)

    Player(transcript, tmp_path, 2, redis_url=url).play()


def test_a_reply_that_is_not_in_the_transcript_is_noticed(tmp_path: Path) -> None:
    transcript = parse("> PING")

    with pytest.raises(AssertionError, match="after line 1, in RESP2, a got:\n< \\+PONG"):
        Player(transcript, tmp_path, 2).play()


def test_a_reply_that_never_comes_is_noticed(tmp_path: Path) -> None:
    transcript = parse("a> QNOTIFY g 1 q\nb> PING\nb< +PONG\na< $1")

    with pytest.raises(AssertionError, match="a got:\nnothing"):
        Player(transcript, tmp_path, 2).play()


def test_an_id_stands_for_one_id_only(tmp_path: Path) -> None:
    transcript = parse("> QADD q 1 x\n> QADD q 1 y\n< $16\n< <id:1>\n< $16\n< <id:1>")

    with pytest.raises(AssertionError, match="a got:\n< \\$16"):
        Player(transcript, tmp_path, 2).play()


def test_a_line_that_means_nothing_is_named() -> None:
    with pytest.raises(ValueError, match="line 2: not a line of a transcript: hello"):
        parse("> PING\nhello")
