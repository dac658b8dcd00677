"""A number and its noun, as errors, logs and the command line write them."""

from __future__ import annotations

import pytest

from quinque.errors import many


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("message",), "0 messages"),
        (1, ("message",), "1 message"),
        (2_000, ("message",), "2,000 messages"),
        (1, ("delivery", "deliveries"), "1 delivery"),
        (2, ("delivery", "deliveries"), "2 deliveries"),
    ],
)
def test_only_one_is_singular(number: int, words: tuple[str, ...], text: str) -> None:
    assert many(number, *words) == text
