"""Inline requests: quoting and back, and lines that are made to take long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.wire.inline import split_inline
from tests.model.effort import effort


@effort(examples=200)
@given(st.lists(st.binary(max_size=20), max_size=6), st.data())
def test_words_that_are_quoted_come_back(words: list[bytes], data: st.DataObject) -> None:
    line = b" ".join(data.draw(st.sampled_from((doubly, singly)))(word) for word in words)

    assert split_inline(line) == words


@pytest.mark.parametrize("start", [rb'"\x41', rb"'\'", b"\"'", b"a\"b' ", rb'"\\'])
def test_a_line_that_does_not_end_takes_no_longer_than_another(start: bytes) -> None:
    """Tried every way there is, forty escapes would take a day; 64 KiB is the longest line."""
    opening, escape = start[:1], start[1:]

    assert split_inline(opening + escape * (65_536 // len(escape))) is None


def doubly(word: bytes) -> bytes:
    return b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"'


def singly(word: bytes) -> bytes:
    """Single quotes cannot end in a backslash, nor hold one before a quote."""
    return doubly(word) if b"\\" in word else b"'" + word.replace(b"'", b"\\'") + b"'"
