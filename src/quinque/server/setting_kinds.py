"""The types of settings: how their values are read, shown and described.

Called by   config.py, whose table gives every setting a kind.
Calls       nothing.

A value is read from text (command line, environment, CONFIG SET) or from TOML (config file), and
written as text (CONFIG GET) or as TOML (the example, CONFIG REWRITE). A written value is read back
as the same value.

Not here: the list of settings (config.py), the sources of their values (config_sources.py), network
addresses (address_kinds.py).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Generic, TypeVar

from quinque.errors import BadSetting

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

SIZE_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
SPAN_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
MOST_COUNT = 2**31 - 1  # every platform's listen backlog, file table and range() take it
MOST_SIZE = SIZE_UNITS["tb"] << 10
MOST_SPAN_US = 366 * SPAN_UNITS_US["d"]

_MOST_SHOWN = 120  # characters of a refused value that an error repeats

# Digits are bounded because int() of a very long text is slow, and past 4300 digits refused.
# A password before the host, or among the options of a URL.
_PASSWORD = re.compile(r"(://[^/?#@:]*:).*(?=@)|([?&][a-z_]*password=)[^&#]*")
_STORE_URL = re.compile(r"(?:rediss?(?:\+sentinel|\+cluster)?|unix)://.")
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,18})(b|kb|mb|gb|tb|)", re.ASCII)
_SPAN = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)(us|ms|s|m|h|d|)", re.ASCII)


class Kind(Generic[T]):
    """A type of settings. Text of another type raises BadSetting, which describes the valid
    values."""

    metavar: ClassVar[str] = "TEXT"
    is_secret: ClassVar[bool] = False
    is_path: ClassVar[bool] = False
    is_repeatable: ClassVar[bool] = False
    unit: ClassVar[str] = ""

    @property
    def shape(self) -> str:
        """The valid values, in few words: "always | no", "64kb to 4gb"."""
        raise NotImplementedError

    @property
    def allowed(self) -> str:
        """The allowed values, to end the sentence "x is not …"."""
        return self.shape

    def value(self, text: str) -> T:
        """The value that the text means."""
        raise NotImplementedError

    def value_of_toml(self, given: object) -> T:
        """The value that a TOML value means; text means what it means elsewhere."""
        if isinstance(given, str):
            return self.value(given)
        raise self.refusal(given)

    def text(self, value: T) -> str:
        """The value as text, which means it."""
        return str(value)

    def shown(self, value: T) -> str:
        """The value as CONFIG GET shows it."""
        return self.text(value)

    def toml(self, value: T) -> str:
        """The value as a config file has it."""
        return toml_string(self.text(value))

    def refusal(self, given: object) -> BadSetting:
        shown = repr(given)
        if len(shown) > _MOST_SHOWN:
            shown = shown[:_MOST_SHOWN] + "…"
        return BadSetting(f"{'the value' if self.is_secret else shown} is not {self.allowed}")


class Text(Kind[str]):
    """Any text that a config file can hold."""

    @property
    def shape(self) -> str:
        return "text"

    @property
    def allowed(self) -> str:
        return "UTF-8 text without NUL (in quotes in a config file)"

    def value(self, text: str) -> str:
        # A lone surrogate stands for a byte of the environment that is not UTF-8.
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise self.refusal(text)
        return text


class Secret(Text):
    """Text that errors, logs and --print-config do not show."""

    metavar = "SECRET"
    is_secret = True


class Path(Text):
    """A file or folder; a relative one starts from the folder the broker was started in."""

    metavar = "PATH"
    is_path = True

    @property
    def shape(self) -> str:
        return "path"


class StoreUrl(Text):
    """The store of the messages: `embedded`, or the URL of a Redis, which may have a password."""

    metavar = "URL"
    is_secret = True

    @property
    def shape(self) -> str:
        return (
            "embedded | redis://… | rediss://… | unix://… | redis+sentinel://… | "
            "rediss+sentinel://… | redis+cluster://… | rediss+cluster://…"
        )

    @property
    def allowed(self) -> str:
        return (
            "embedded, or a URL that begins with redis://, rediss://, unix://, redis+sentinel://,"
            " rediss+sentinel://, redis+cluster:// or rediss+cluster://"
        )

    def value(self, text: str) -> str:
        if text != "embedded" and not _STORE_URL.match(text):
            raise self.refusal(text)
        return super().value(text)

    def shown(self, value: str) -> str:
        return _PASSWORD.sub(r"\1\2(redacted)", value)


@dataclass(frozen=True)
class Choice(Kind[Word]):
    """A choice of some words."""

    words: tuple[Word, ...]

    metavar = "WORD"

    @property
    def shape(self) -> str:
        return " | ".join(self.words)

    @property
    def allowed(self) -> str:
        return "one of: " + ", ".join(self.words)

    def value(self, text: str) -> Word:
        for word in self.words:
            if word == text.lower():
                return word
        raise self.refusal(text)


class Flag(Kind[bool]):
    """On or off."""

    metavar = "YES|NO"

    @property
    def shape(self) -> str:
        return "true | false"

    @property
    def allowed(self) -> str:
        return "yes or no (true or false in a config file)"

    def value(self, text: str) -> bool:
        match text.lower():
            case "yes" | "true" | "on" | "1":
                return True
            case "no" | "false" | "off" | "0":
                return False
        raise self.refusal(text)

    def value_of_toml(self, given: object) -> bool:
        return given if isinstance(given, bool) else super().value_of_toml(given)

    def text(self, value: bool) -> str:
        return "yes" if value else "no"

    def toml(self, value: bool) -> str:
        return "true" if value else "false"


class _Number(Kind[T]):
    """The common part of numeric types: TOML may have the number itself."""

    def value_of_toml(self, given: object) -> T:
        if isinstance(given, int | float) and not isinstance(given, bool):
            # Not str(): it writes 0.000001 as 1e-06.
            return self.value(format(Decimal(str(given)), "f"))
        return super().value_of_toml(given)

    def toml(self, value: T) -> str:
        return self.text(value)


@dataclass(frozen=True)
class Count(_Number[int]):
    """A whole number."""

    least: int = 0
    most: int = MOST_COUNT

    metavar = "COUNT"

    @property
    def shape(self) -> str:
        return (
            f"{self.least} or more" if self.most == MOST_COUNT else f"{self.least} to {self.most}"
        )

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def value(self, text: str) -> int:
        if not _WHOLE.fullmatch(text) or not self.least <= int(text) <= self.most:
            raise self.refusal(text)
        return int(text)


@dataclass(frozen=True)
class Size(_Number[int]):
    """A number of bytes."""

    least: int = 0
    most: int = MOST_SIZE

    metavar = "SIZE"
    unit = "bytes"

    @property
    def shape(self) -> str:
        least = size_text(self.least)
        return (
            f"{least} or more" if self.most == MOST_SIZE else f"{least} to {size_text(self.most)}"
        )

    @property
    def allowed(self) -> str:
        return (
            f"a size from {size_text(self.least)} to {size_text(self.most)}"
            " (bytes, or a whole number with kb, mb, gb or tb)"
        )

    def value(self, text: str) -> int:
        parts = _SIZE.fullmatch(text.lower())
        if parts is None:
            raise self.refusal(text)
        size_bytes = int(parts[1]) * SIZE_UNITS[parts[2]]
        if not self.least <= size_bytes <= self.most:
            raise self.refusal(text)
        return size_bytes

    def toml(self, value: int) -> str:
        shown = size_text(value)
        return shown if shown.isdigit() else toml_string(shown)


class _Span(_Number[T]):
    """The common part of durations: the units, and a resolution of one microsecond."""

    own_unit: ClassVar[str]
    least_us: ClassVar[int] = 0

    metavar = "TIME"

    @property
    def shape(self) -> str:
        days = MOST_SPAN_US // SPAN_UNITS_US["d"]
        return f"{self.least_us // SPAN_UNITS_US[self.own_unit]} to {days}d"

    @property
    def allowed(self) -> str:
        return f"a time from {self.shape} ({self.unit}, or a number with us, ms, s, m, h or d)"

    def span_us(self, text: str) -> int:
        parts = _SPAN.fullmatch(text.lower())
        if parts is None:
            raise self.refusal(text)
        span_us = Decimal(parts[1]) * SPAN_UNITS_US[parts[2] or self.own_unit]
        if span_us != int(span_us) or not self.least_us <= span_us <= MOST_SPAN_US:
            raise self.refusal(text)
        return int(span_us)


class Seconds(_Span[float]):
    """A span kept in seconds."""

    unit = "seconds"
    own_unit = "s"

    def value(self, text: str) -> float:
        return self.span_us(text) / SPAN_UNITS_US["s"]

    def text(self, value: float) -> str:
        return f"{value:.6f}".rstrip("0").rstrip(".")


class Milliseconds(_Span[int]):
    """A span kept in whole milliseconds."""

    unit = "milliseconds"
    own_unit = "ms"

    def value(self, text: str) -> int:
        whole_ms, rest_us = divmod(self.span_us(text), SPAN_UNITS_US["ms"])
        if rest_us:
            raise self.refusal(text)
        return whole_ms


class Microseconds(_Span[int]):
    """A span kept in microseconds; -1 stands for "off"."""

    unit = "microseconds"
    own_unit = "us"
    least_us = -1

    def value(self, text: str) -> int:
        return self.span_us(text)


def size_text(size_bytes: int) -> str:
    """The shortest exact way to write a size: 64mb, 1536kb, 1000."""
    for unit in ("tb", "gb", "mb", "kb"):
        if size_bytes and size_bytes % SIZE_UNITS[unit] == 0:
            return f"{size_bytes // SIZE_UNITS[unit]}{unit}"
    return str(size_bytes)


def toml_string(text: str) -> str:
    """The text in quotes, as TOML takes it: JSON's escapes, and DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
