"""Inline requests beside a real redis-server: the same words, the same refusals.

Every row of the table is asked of the server first, so that it is Redis's table and not ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.wire.inline import split_inline
from tests.model.effort import effort
from tests.wire.redis_reader import RedisReader, start_reader
from tests.wire.streams import read

TABLE: dict[str, tuple[bytes, list[bytes] | None]] = {
    "plain words": (b"a bc", [b"a", b"bc"]),
    "several blanks": (b"  a   b  ", [b"a", b"b"]),
    "tabs": (b"\ta\t\tb\t", [b"a", b"b"]),
    "a CR in the line": (b"a\rb\r", [b"a", b"b"]),
    "a vertical tab before a word": (b"\va \fb", [b"a", b"b"]),
    "a vertical tab in a word": (b"a\vb\fc", [b"a\vb\fc"]),
    "a vertical tab after a word": (b"a\v", [b"a\v"]),
    "a vertical tab after a word and a blank": (b"a \v", [b"a"]),
    "a vertical tab after quotes": (b"\"a\"\v'b'\f", [b"a", b"b"]),
    "no words": (b"", []),
    "only blanks": (b" \t ", []),
    "bytes that are no text": (b"\xff\x01\x80", [b"\xff\x01\x80"]),
    "a backslash outside quotes": (rb"a\nb \" c", None),
    "a backslash before a blank": (b"a\\ b", [b"a\\", b"b"]),
    "double quotes": (b'"a b" c', [b"a b", b"c"]),
    "single quotes": (b"'a b' c", [b"a b", b"c"]),
    "empty double quotes": (b'"" a ""', [b"", b"a", b""]),
    "empty single quotes": (b"'' a ''", [b"", b"a", b""]),
    "single in double": (b'"it\'s"', [b"it's"]),
    "double in single": (b"'say \"x\"'", [b'say "x"']),
    "\\n \\r \\t \\b \\a": (rb'"\n\r\t\b\a"', [b"\n\r\t\b\a"]),
    "\\xHH": (rb'"\x00\x0d\x0A\xfF\x41B"', [b"\x00\r\n\xffAB"]),
    "\\x without two digits": (rb'"\x4 \xg1 \x"', [b"x4 xg1 x"]),
    "\\X is no \\x": (rb'"\X41"', [b"X41"]),
    "\\ before a double quote": (rb'"\"a\""', [b'"a"']),
    "\\ before a backslash": (rb'"\\n"', [rb"\n"]),
    "\\ before anything else": (rb'"\q\0\ \'"', [b"q0 '"]),
    "\\n in single quotes": (rb"'\n\x41\\'", None),
    "\\x in single quotes": (rb"'\n\x41\"'", [rb"\n\x41\""]),
    "\\ before a single quote": (rb"'it\'s'", [b"it's"]),
    "\\\\ before a single quote": (rb"'a\\'b'", [rb"a\'b"]),
    "double quotes in a word": (b'a"b c"', [b"ab c"]),
    "single quotes in a word": (b"a'b c' d", [b"ab c", b"d"]),
    "empty quotes in a word": (b"a\"\" b''", [b"a", b"b"]),
    "a word after double quotes": (b'"a"b', None),
    "a word after single quotes": (b"'a'b", None),
    "quotes after quotes": (b'"a""b"', None),
    "other quotes after quotes": (b"\"a\"'b'", None),
    "a backslash after quotes": (b'"a"\\', None),
    "open double quotes": (b'a "b', None),
    "open single quotes": (b"a 'b", None),
    "open quotes in a word": (b'a"', None),
    "only a quote": (b"'", None),
    "an end that is escaped": (rb'"a\"', None),
    "a backslash at the end": (b'"a\\', None),
    "an end that is escaped in single quotes": (rb"'a\'", None),
}

BROKEN = {
    "no count": b"*x\r\n",
    "an empty count": b"*\r\n",
    "a count with a zero": b"*01\r\n",
    "a count that is less than zero by nothing": b"*-0\r\n",
    "too large a count": b"*2147483648\r\n",
    "no length": b"*1\r\n$x\r\n",
    "a negative length": b"*1\r\n$-1\r\n",
    "too large a length": b"*1\r\n$99999999999\r\n",
    "no dollar": b"*1\r\n:1\r\n",
    "a line for an argument": b"*1\r\nPING\r\n",
    "an endless count": b"*" + b"1" * 70_000,
    "an endless length": b"*1\r\n$" + b"1" * 70_000,
    "an endless line": b"x" * 70_000,
    "open quotes": b'ECHO "a\r\n',
}


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisReader]:
    with start_reader() as server:
        yield server


@pytest.mark.parametrize("what", TABLE)
def test_a_line_has_the_words_that_redis_finds_in_it(redis: RedisReader, what: str) -> None:
    line, words = TABLE[what]

    assert redis.words(line) == words
    assert split_inline(line) == words


@effort(examples=500)
@given(st.text("\"\"''\\\\ \t\r\v\f" + "abnrtx04gF", max_size=24).map(str.encode))
def test_any_line_has_the_words_that_redis_finds_in_it(redis: RedisReader, line: bytes) -> None:
    assert split_inline(line) == redis.words(line)


@effort(examples=100)
@given(st.binary(max_size=20).filter(lambda line: b"\0" not in line and b"\n" not in line))
def test_any_bytes_have_the_words_that_redis_finds_in_them(redis: RedisReader, line: bytes) -> None:
    assert split_inline(line) == redis.words(line)


@pytest.mark.parametrize("what", BROKEN)
def test_broken_bytes_are_refused_in_the_words_of_redis(redis: RedisReader, what: str) -> None:
    """Ours may go on after them: with the limit."""
    ours = read([BROKEN[what]])

    assert ours.requests == []
    assert ours.why.partition("; at most ")[0] == redis.complaint(BROKEN[what])
