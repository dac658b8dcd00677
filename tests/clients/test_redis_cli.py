"""redis-cli, as people use it: one command, many from a file, help, statistics."""

from __future__ import annotations

import json
import re

from tests.clients.programs import redis_cli
from tests.server.broker import RunningBroker


def test_one_command_from_the_shell(broker: RunningBroker, queue: str) -> None:
    event_id = redis_cli(broker, "QADD", queue, "60", "hello").strip()

    assert re.fullmatch(r"\d{16}", event_id)
    assert redis_cli(broker, "QGET", queue, "g") == f"{event_id}\nhello\n"
    assert redis_cli(broker, "QGET", queue, "g") == "\n"
    assert redis_cli(broker, "--no-raw", "QGET", queue, "g") == "(nil)\n"
    assert redis_cli(broker, "--no-raw", "QACK", queue, "g", event_id) == "(integer) 1\n"


def test_maps_are_maps_in_resp3_and_in_json(broker: RunningBroker, queue: str) -> None:
    redis_cli(broker, "QADD", queue, "60", "hello")

    shown = redis_cli(broker, "-3", "--no-raw", "QSTATUS", queue, "GROUPS", "g")
    (row,) = json.loads(redis_cli(broker, "--json", "QSTATUS", queue, "GROUPS", "g"))

    assert re.search(r'1# "g" => \n +1# "total" => \(integer\) 1\n', shown)
    assert row[0] == queue
    assert row[1]["g"]["available"] == 1


def test_commands_from_a_file(broker: RunningBroker, queue: str) -> None:
    typed = f'PING\n\nQADD {queue} 60 "hello world"\nNOSUCH\nQGET {queue} g\n'

    printed = redis_cli(broker, typed=typed).splitlines()

    assert printed[0] == "PONG"
    assert printed[2].startswith("ERR unknown command 'NOSUCH'")
    assert printed[-2:] == [printed[1], "hello world"]


def test_a_blocking_command_waits_for_its_answer(broker: RunningBroker, queue: str) -> None:
    typed = f"QNOTIFY g 0.05 {queue}\nQADD {queue} 60 x\nQNOTIFY g 60 {queue}\n"

    printed = redis_cli(broker, "--no-raw", typed=typed).splitlines()

    assert printed[0] == "(nil)"
    assert printed[2] == f'"{queue}"'


def test_help_is_made_from_the_commands_of_the_broker(broker: RunningBroker) -> None:
    printed = redis_cli(broker, typed="help QSTATUS\nhelp CLIENT KILL\n")

    assert "[queue [queue ...]] [GROUPS group [group ...]]" in printed
    assert "group:" in printed
    assert "events" in printed
    assert "CLIENT KILL" in printed


def test_mass_insertion_with_pipe(broker: RunningBroker, queue: str) -> None:
    typed = f"QADD {queue} 60 x\r\n" * 1000

    printed = redis_cli(broker, "--pipe", typed=typed)

    assert "errors: 0, replies: 1000" in printed


def test_repeating_a_command_measures_the_time_it_takes(broker: RunningBroker) -> None:
    assert redis_cli(broker, "-r", "50", "PING") == "PONG\n" * 50


def test_info_has_what_people_look_for(broker: RunningBroker) -> None:
    printed = redis_cli(broker, "INFO")

    assert "redis_version:7.0.0" in printed
    assert "# Quinque" in printed


def test_the_newest_protocol_and_a_name_can_be_asked_for(broker: RunningBroker) -> None:
    typed = "HELLO 3 SETNAME me\nCLIENT GETNAME\nCLIENT ID\n"

    printed = redis_cli(broker, "-3", typed=typed).splitlines()

    assert "proto 3" in printed
    assert printed[-2] == "me"


def test_latency_can_be_measured(broker: RunningBroker) -> None:
    # Without a terminal, redis-cli measures for as long as -i says and prints one line.
    least, most, average, samples = redis_cli(broker, "--latency", "-i", "0.2").split()

    assert int(samples) > 0  # how many, depends on the speed of the machine
    assert float(least) <= float(average) <= float(most)
