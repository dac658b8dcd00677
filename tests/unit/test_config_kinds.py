"""The kinds of value: what text means, what is refused, and that text leads back to the value."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.errors import BadSetting
from quinque.server.address import Address, parse_address
from quinque.server.address_kinds import Addresses, Reachable
from quinque.server.config import SETTINGS
from quinque.server.setting_kinds import (
    MOST_SIZE,
    Count,
    Flag,
    Kind,
    Microseconds,
    Milliseconds,
    Seconds,
    Secret,
    Size,
    Text,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("1000", 1000), ("7b", 7), ("64kb", 65536), ("1MB", 1 << 20), ("2gb", 2 << 30)],
)
def test_a_size_is_bytes_or_has_a_unit(text: str, size_bytes: int) -> None:
    assert Size().value(text) == size_bytes


@pytest.mark.parametrize("text", ["", "kb", "-1", "1.5mb", "1 mb", "1k", "٣", "9" * 5000, "1_000"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="is not a size from 0 to 1024tb"):
        Size().value(text)


@pytest.mark.parametrize("text", ["65535", "5gb"])
def test_a_size_outside_its_bounds_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="from 64kb to 4gb"):
        SETTINGS["segment-size"].kind.value(text)


@pytest.mark.parametrize(
    ("text", "span_s"),
    [("0", 0.0), ("30", 30.0), ("0.5", 0.5), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0)],
)
def test_a_plain_number_of_seconds_is_seconds(text: str, span_s: float) -> None:
    assert Seconds().value(text) == span_s


@pytest.mark.parametrize(
    ("text", "span_us"), [("10000", 10_000), ("10ms", 10_000), ("1s", 1_000_000), ("-1", -1)]
)
def test_a_plain_number_of_microseconds_is_microseconds(text: str, span_us: int) -> None:
    assert Microseconds().value(text) == span_us


@pytest.mark.parametrize(
    ("text", "span_ms"), [("0", 0), ("250", 250), ("2s", 2_000), ("1d", 86_400_000)]
)
def test_a_plain_number_of_milliseconds_is_milliseconds(text: str, span_ms: int) -> None:
    assert Milliseconds().value(text) == span_ms


@pytest.mark.parametrize("text", ["", "-1", "0.5", "500us", "367d"])
def test_milliseconds_are_whole(text: str) -> None:
    with pytest.raises(BadSetting, match=r"is not a time from 0 to 366d \(milliseconds, or"):
        Milliseconds().value(text)


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1e3", "5 s", "367d", "0.5us", "s"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"is not a time from 0 to 366d \(seconds, or"):
        Seconds().value(text)


@pytest.mark.parametrize("text", ["yes", "TRUE", "on", "1"])
def test_many_words_mean_yes(text: str) -> None:
    assert Flag().value(text) is True


def test_words_that_are_neither_yes_nor_no_are_refused() -> None:
    with pytest.raises(BadSetting, match="'maybe' is not yes or no"):
        Flag().value("maybe")


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Count(), True),
        (Count(), 1.5),
        (Count(), [1]),
        (Text(), 5),
        (Addresses(), [5]),
        (Addresses(), {"host": "x"}),
        (Seconds(), float("inf")),
    ],
)
def test_a_toml_value_of_another_type_is_refused(kind: Kind[Any], given: object) -> None:
    with pytest.raises(BadSetting):
        kind.value_of_toml(given)


def test_toml_numbers_need_no_quotes() -> None:
    assert Size().value_of_toml(4096) == 4096
    assert Seconds().value_of_toml(0.25) == 0.25


@pytest.mark.parametrize("text", ["a\0b", "\udcff"])
def test_a_secret_that_is_refused_is_not_repeated(text: str) -> None:
    with pytest.raises(BadSetting, match=r"^the value is not UTF-8 text"):
        Secret().value(text)


def test_a_long_value_is_cut_in_the_error() -> None:
    with pytest.raises(BadSetting) as caught:
        Count().value("x" * 100_000)

    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4777", Address("127.0.0.1", 4777)),
        (":0", Address("", 0)),
        ("[::1]:4777", Address("::1", 4777)),
        ("my-host.example:65535", Address("my-host.example", 65535)),
        ("unix:/run/q.sock", Address(path="/run/q.sock")),
    ],
)
def test_an_address_is_a_host_and_a_port_or_a_unix_path(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "10.0.0.1:1", "[::1]:4777", "my-host.example:65535"])
def test_what_others_can_connect_to_can_be_announced(text: str) -> None:
    assert Reachable().value(text) == text


@pytest.mark.parametrize(
    "text", ["host", ":4777", "0.0.0.0:4777", "[::]:4777", "h:0", "unix:/run/q.sock", "h:1,h:2"]
)
def test_what_nobody_can_connect_to_is_not_announced(text: str) -> None:
    with pytest.raises(BadSetting, match="that other machines can connect to"):
        Reachable().value(text)


@pytest.mark.parametrize(
    "text",
    ["4777", "host", "host:", "h:65536", "h:-1", "::1:4777", "h:1 ", "unix:", "unix:" + "x" * 108],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        parse_address(text)


@given(st.integers(0, MOST_SIZE))
def test_a_size_that_is_shown_can_be_read_back(size_bytes: int) -> None:
    assert back(Size(), size_bytes) == [size_bytes, size_bytes]


@given(st.integers(0, 366 * 86_400_000_000))
def test_a_time_that_is_shown_can_be_read_back(span_us: int) -> None:
    span_s = span_us / 1_000_000

    assert back(Seconds(), span_s) == [span_s, span_s]
    assert back(Microseconds(), span_us) == [span_us, span_us]


@given(st.text().filter(lambda text: "\0" not in text))
def test_a_text_that_is_shown_can_be_read_back(text: str) -> None:
    assert back(Text(), text) == [text, text]


def back(kind: Kind[Any], value: object) -> list[object]:
    """What the text and the TOML of a value mean."""
    from_toml = tomllib.loads(f"value = {kind.toml(value)}\n")["value"]
    return [kind.value(kind.text(value)), kind.value_of_toml(from_toml)]
