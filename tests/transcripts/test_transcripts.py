"""Every transcript of the documentation happens as it is written, in both protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import stores
from tests.transcripts.notation import FOLDER, parse, transcript_paths
from tests.transcripts.player import Player

_NOREPL = "NOREPL Not enough reachable nodes for the requested replication level"


# A reply says how many replicas a primary has.
_TOO_FEW = {
    f"REPLICATE {copies}{rest}\n< -{_NOREPL}\n": f"REPLICATE {copies}{rest}\n< -{_NOREPL}: "
    f"REPLICATE {copies} needs {copies - 1} replicas of the Redis primary, and it has 0; brokers "
    "keep no copies\n"
    for copies in (5, 65535)
    for rest in ("", " ASYNC")
}
# And drivers need an embedded store.
_KINDS = {"utubettl or a driver": "utubettl or a driver; drivers need an embedded store"}
# And a broker has only some of the microseconds for ids of events.
_IDS = {
    "< 1700000000000001\n": "< 1700000000000004\n",
    "< 1700000000000002\n": "< 1700000000000006\n",
    "< 1700000001500001\n": "< 1700000001500004\n",
}
ELSEWHERE = _TOO_FEW | _KINDS | _IDS


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
    for alone, elsewhere in ELSEWHERE.items():
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
