"""What a program may say of its handlers, how long a message rests, what is told of an error."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from click.testing import CliRunner

from quinque.cli.main import main
from quinque.errors import BadSetting
from quinque.worker import App, Backoff, Message, Retry
from quinque.worker.backoff import rest_s
from quinque.worker.message import reason_of


def test_what_an_app_cannot_do_is_said_when_it_is_asked() -> None:
    app = App("redis://127.0.0.1:1")
    app.add("q", print)
    for asked in (
        {"family": "stacks"},
        {"family": "events"},  # without a group
        {"lease": 0},
        {"batch": 0},
        {"timeout": 0},
        {"max_deliveries": -1},
        {"backoff": (2, 1)},
        {},  # there is one for this queue
    ):
        with pytest.raises(BadSetting):
            app.add("q", lambda body: None, **asked)
    with pytest.raises(BadSetting, match="must take a body"):
        app.add("other", lambda: None)
    with pytest.raises(BadSetting, match="must take a body"):
        app.add("other", _takes_more)
    with pytest.raises(BadSetting, match="must not yield"):
        app.add("other", _yields)
    with pytest.raises(BadSetting, match="hooks must be plain functions"):
        app.before(_hook)
    with pytest.raises(BadSetting, match="not the URL of a broker"):
        App("a.folder")


@pytest.mark.parametrize(
    ("setting", "wrong", "said"),
    [
        ("timeout", "3", "timeout must be a number of seconds or a timedelta, not str"),
        ("lease", "3", "lease must be a number of seconds or a timedelta, not str"),
        ("lease", None, "lease must be a number of seconds or a timedelta, not NoneType"),
        ("backoff", 1, "backoff must be a pair of times or a Backoff, not int"),
        ("backoff", (1,), "backoff must be a pair of times or a Backoff, not tuple"),
        ("backoff", ("1", 2), "backoff must be a number of seconds or a timedelta, not str"),
        ("backoff", Backoff("1", 2), "backoff must be a number of seconds or a timedelta, not str"),  # type: ignore[arg-type]
        (
            "backoff",
            (1, inf),
            (
                "backoff must be (first delay, longest delay) in seconds, with 0 <= first"
                " <= longest <= 1 year"
            ),
        ),
        ("lease", 1e300, "lease 1e+300 must be more than 0 s, and at most 3153600000 s"),
        ("group", 5, "group is bytes or str, and not int"),
        ("results", 5, "results is bytes or str, and not int"),
        ("dead", 5, "dead is bytes or str, and not int"),
        ("batch", "5", "batch '5' is not a whole number"),
        ("codec", "yaml", "unknown codec 'yaml': use one of bytes, json, msgpack"),
        ("concurrency", 1.5, "concurrency 1.5 is not a whole number"),
        ("max_deliveries", "5", "max_deliveries '5' is not a whole number"),
    ],
)
def test_a_setting_of_another_type_is_refused_with_its_name(
    setting: str, wrong: object, said: str
) -> None:
    app = App("redis://127.0.0.1:1")

    with pytest.raises(BadSetting, match=f"^{re.escape(said)}$"):
        app.add("q", print, **{setting: wrong})  # type: ignore[arg-type]

    assert app.handlers == []


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (5, "queue is bytes or str, and not int"),
        ("q" * 1025, "queue has 1025 bytes; at most 1024"),
        ("\ud800", "queue cannot be encoded: surrogates not allowed"),
        ("", "queue must not be empty"),
    ],
)
def test_a_name_that_no_queue_has_is_refused(queue: Any, said: str) -> None:
    with pytest.raises(BadSetting, match=f"^{re.escape(said)}$"):
        App("redis://127.0.0.1:1").add(queue, print, family="items")


def test_a_handler_without_the_name_of_its_queue_is_refused() -> None:
    app = App("redis://127.0.0.1:1")
    said = 'handler requires the name of a queue, such as @app.handler("emails")'

    with pytest.raises(BadSetting, match=f"^{re.escape(said)}$"):

        @app.handler  # type: ignore[arg-type]
        def _send(body: bytes) -> None: ...


def test_the_times_of_a_handler_may_be_timedeltas() -> None:
    app, second = App("redis://127.0.0.1:1"), timedelta(seconds=1)

    app.add("q", print, lease=5 * second, timeout=3 * second, backoff=(second, 2 * second))

    assert (app.handlers[0].lease_s, app.handlers[0].timeout_s) == (5, 3)
    assert app.handlers[0].backoff == Backoff(1, 2)


@pytest.mark.parametrize("wrong", [{"deadline": "30"}, {"deadline": -1}, {"threads": "8"}])
def test_what_an_app_cannot_run_with_is_said_before_it_runs(wrong: dict[str, Any]) -> None:
    app = App("redis://127.0.0.1:1")
    app.add("q", print)

    with pytest.raises(BadSetting, match=f"^{next(iter(wrong))} "):
        app.run(**wrong)
    with pytest.raises(BadSetting, match=f"^{next(iter(wrong))} "):
        asyncio.run(app.run_async(**wrong))


def _takes_more(body: bytes, *, more: int) -> None: ...


async def _hook(message: Message) -> None: ...


def _yields(body: bytes) -> Iterator[bytes]:
    yield body


def test_an_object_that_is_called_is_a_coroutine_if_its_call_is() -> None:
    class Count:
        async def __call__(self, body: bytes, message: Message) -> None: ...

    app = App("redis://127.0.0.1:1")
    app.add("q", Count())
    app.add("other", partial(Count(), message=Message("q", b"x", b"", 1)))

    assert [handler.is_async for handler in app.handlers] == [True, True]


def test_a_rest_is_twice_as_long_each_time_and_up_to_half_of_it_less() -> None:
    backoff = Backoff(first=1, most=10)

    assert [backoff.delay_s(failures, chance=0) for failures in range(1, 6)] == [1, 2, 4, 8, 10]
    assert backoff.delay_s(2, chance=1) == 1
    assert backoff.delay_s(10_000, chance=0) == 10


@dataclass(frozen=True)
class Odd(Backoff):
    """A class of a program, which computes what it likes."""

    delay: Any = None

    def delay_s(self, failures: int, chance: float | None = None) -> Any:
        return self.delay() if callable(self.delay) else self.delay


@pytest.mark.parametrize("delay", [lambda: 1 / 0, None, "5", -1, inf, nan])
def test_a_backoff_that_computes_no_delay_is_not_used(
    delay: Any, caplog: pytest.LogCaptureFixture
) -> None:
    delay_s = rest_s(ValueError(), Odd(10, 20, delay), 1)

    assert 5 <= delay_s <= 10
    assert "Odd" in caplog.text
    assert rest_s(ValueError(), Odd(10, 20, timedelta(seconds=30)), 1) == 30


def test_a_delay_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^delay must be a number of seconds or a timedelta, not"):
        Retry("5")  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf")])
def test_nothing_comes_back_at_a_time_that_is_none(delay: float) -> None:
    with pytest.raises(ValueError, match="must be 0 to"):
        Retry(delay)


def test_a_reason_is_the_error_and_what_it_was_raised_from() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ExceptionGroup("outer", [ValueError("one of them")]) from error
    except ExceptionGroup as group:
        lines = reason_of(group, 1_024).decode().splitlines()

    assert lines[0] == "ExceptionGroup: outer (1 sub-exception)"
    assert [line for line in lines if not line.startswith(" ")][1:] == [
        "from ValueError: one of them",
        "from KeyError: 'inner'",
    ]


def test_a_reason_is_had_of_any_error() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def descend(left: int) -> None:
        if not left:
            raise ValueError("ü" * 10_000)
        descend(left - 1)

    with pytest.raises(ValueError) as deep:  # noqa: PT011  # its text is what it is about
        descend(500)
    round_about = ValueError("a")
    round_about.__context__ = KeyError("b")
    round_about.__context__.__context__ = round_about

    assert reason_of(Bad(), 100) == b"Bad: the text of the error is not available: RuntimeError"
    assert reason_of(deep.value, 100) == b"ValueError: " + "ü".encode() * 44
    assert reason_of(round_about, 100) == b"ValueError: a\nfrom KeyError: 'b'"


def test_a_worker_that_is_stalled_at_once_is_refused() -> None:
    result = CliRunner().invoke(main, ["work", "emails:app", "--stalled-after", "0"])

    assert (result.exit_code, "must be greater than 0" in result.stderr) == (2, True)
