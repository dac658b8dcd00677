"""Patterns on raw bytes mean what they mean in Redis, and cost little whatever they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.model.glob import JOINED_MOST_BYTES, compile_glob, matcher


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (b"*", b""),
        (b"*", b"any\nthing\xff"),
        (b"a*c", b"abbc"),
        (b"a*b*c", b"a-b-b-c"),
        (b"*.log*", b"x.log.log"),
        (b"a?c", b"a\nc"),
        (b"[a-c]x", b"bx"),
        (b"[c-a]x", b"bx"),
        (b"[^a-c]x", b"dx"),
        (b"[\\]]", b"]"),
        (b"[a", b"a"),
        (b"\\*", b"*"),
        (b"a\\", b"a\\"),
        (b"a.c", b"a.c"),
        (b"\xff*", b"\xff\x00"),
        (b"a**b", b"ab"),
        (b"*ab*ab", b"abab"),
        (b"a*[^a]", b"aab"),
        (b"[^]x", b"ax"),
        (b"", b""),
    ],
)
def test_the_name_matches(pattern: bytes, name: bytes) -> None:
    assert compile_glob(pattern).fullmatch(name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (b"ab*b", b"ab"),
        (b"a*b*b", b"ab"),
        (b"[]x", b"ax"),
        (b"", b"a"),
        (b"a*c", b"abcd"),
        (b"a?c", b"ac"),
        (b"[a-c]x", b"dx"),
        (b"[^a-c]x", b"bx"),
        (b"[]x", b"x"),
        (b"\\*", b"a"),
        (b"a.c", b"abc"),
        (b"*ab*ab", b"ab"),
        (b"a*", b"ba"),
        (b"orders.*", b"orders"),
        (b"A", b"a"),
    ],
)
def test_the_name_does_not_match(pattern: bytes, name: bytes) -> None:
    assert not compile_glob(pattern).fullmatch(name)


@given(
    patterns=st.lists(st.text("ab*?[]^-\\", max_size=6), min_size=1, max_size=8),
    names=st.lists(st.text("ab-]", max_size=5), min_size=1, max_size=8),
    is_long=st.booleans(),
)
def test_several_patterns_match_what_one_of_them_matches(
    patterns: list[str], names: list[str], is_long: bool
) -> None:
    listed = [pattern.encode() for pattern in patterns]
    if is_long:  # too long to be read as one
        listed.append(b"z" * JOINED_MOST_BYTES)
    expected = [
        any(compile_glob(pattern).fullmatch(name.encode()) for pattern in listed) for name in names
    ]

    matches = matcher(listed)

    assert [bool(matches(name.encode())) for name in names] == expected


def test_a_pattern_of_many_stars_ends_soon() -> None:
    # With backtracking this takes longer than the universe has.
    assert not compile_glob(b"*a" * 40 + b"*b").fullmatch(b"a" * 1000)
