"""redis-cli and the jobs family: what people read in a terminal, and what scripts cut apart."""

from __future__ import annotations

import json
import re

import pytest

from tests.clients.programs import redis_cli
from tests.server.broker import RunningBroker

JOB_ID = r"D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}"


def test_a_job_goes_round(broker: RunningBroker, queue: str) -> None:
    id = redis_cli(broker, "ADDJOB", queue, "hello", "0").strip()

    assert re.fullmatch(JOB_ID, id)
    assert redis_cli(broker, "GETJOB", "FROM", queue) == f"{queue}\n{id}\nhello\n"
    assert redis_cli(broker, "--no-raw", "ACKJOB", id) == "(integer) 1\n"
    assert redis_cli(broker, "--no-raw", "SHOW", id) == "(nil)\n"
    assert redis_cli(broker, "--no-raw", "GETJOB", "NOHANG", "FROM", queue) == "(nil)\n"


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_show_is_a_numbered_list(broker: RunningBroker, queue: str, protocol: str) -> None:
    words = ("ADDJOB", queue, "hello", "0", "DELAY", "60", "RETRY", "30", "TTL", "3600")
    id = redis_cli(broker, *words).strip()

    shown = redis_cli(broker, protocol, "--no-raw", "SHOW", id).splitlines()

    assert [re.sub(r"^ ?\d+\) ", "", line) for line in shown[:-6]] == [
        *('"id"', f'"{id}"', '"queue"', f'"{queue}"', '"state"', '"active"'),
        *('"repl"', "(integer) 1", '"ttl"', shown[9][4:], '"ctime"', shown[11][4:]),
        *('"delay"', "(integer) 60", '"retry"', "(integer) 30", '"nacks"', "(integer) 0"),
        *('"additional-deliveries"', "(integer) 0", '"nodes-delivered"'),
        *(shown[21][4:], '"nodes-confirmed"', "(empty array)"),
    ]
    assert re.fullmatch(r"10\) \(integer\) 3(600|5\d\d)", shown[9])
    assert re.fullmatch(r"12\) \(integer\) \d{19}", shown[11])
    assert re.fullmatch(r"26\) \(integer\) [56]\d{4}", shown[25])
    assert shown[-2:] == ['29) "body"', '30) "hello"']


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_qstat_is_a_numbered_list(broker: RunningBroker, queue: str, protocol: str) -> None:
    redis_cli(broker, "ADDJOB", queue, "hello", "0")

    shown = redis_cli(broker, protocol, "--no-raw", "QSTAT", queue).splitlines()

    assert [re.sub(r"^ ?\d+\) ", "", line) for line in shown] == [
        *('"name"', f'"{queue}"', '"len"', "(integer) 1", '"age"', shown[5][4:]),
        *('"idle"', shown[7][4:], '"blocked"', "(integer) 0"),
        *('"import-from"', "(empty array)", '"import-rate"', "(integer) 0"),
        *('"jobs-in"', "(integer) 1", '"jobs-out"', "(integer) 0", '"pause"', '"none"'),
    ]


def test_what_is_set_for_a_queue_is_an_object_in_json(broker: RunningBroker, queue: str) -> None:
    redis_cli(broker, "QSET", queue, "MAXDELIVERIES", "3", "RATE", "10", "60")

    shown = redis_cli(broker, "--json", "QSET", queue)

    assert json.loads(shown) == {
        "max-deliveries": 3,
        "rate-count": 10,
        "rate-seconds": 60,
        "expired": "delete",
    }


def test_a_worker_in_the_shell_waits_for_its_job(broker: RunningBroker, queue: str) -> None:
    typed = f"GETJOB TIMEOUT 20 FROM {queue}\nADDJOB {queue} x 0\nGETJOB FROM {queue}\n"

    printed = redis_cli(broker, "--no-raw", typed=typed)

    assert re.fullmatch(
        rf"\(nil\)\n({JOB_ID})\n"
        rf'1\) 1\) "{re.escape(queue)}"\n   2\) "\1"\n   3\) "x"\n',
        printed,
    )


def test_help_knows_the_family(broker: RunningBroker) -> None:
    coloured = redis_cli(broker, typed="help ADDJOB\nhelp WAITJOB\n")

    printed = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert "ADDJOB queue body" in printed
    assert "[MAXDELIVERIES n]" in printed
    assert "WAITJOB timeout-ms" in printed
    assert "group: jobs" in printed


def test_jobs_are_added_in_masses(broker: RunningBroker, queue: str) -> None:
    typed = f"ADDJOB {queue} x 0\r\n" * 1000

    printed = redis_cli(broker, "--pipe", typed=typed)

    assert "errors: 0, replies: 1000" in printed
    assert redis_cli(broker, "QLEN", queue) == "1000\n"
