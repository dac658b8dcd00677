"""All messages by id, and worklists by name: scans see what is there all the time, once."""

from __future__ import annotations

from random import Random

import pytest

from quinque.engine.work.directory import Directory
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.shelves import Shelves
from tests.engine.work.invariants import check_directory
from tests.engine.work.steps import message_at


def scan_all(directory: Directory, count: int) -> list[WorkMessage]:
    found: list[WorkMessage] = []
    cursor = 0
    while True:
        cursor, some = directory.scan(cursor, count)
        assert len(some) <= count
        found += some
        if not cursor:
            return found


@pytest.mark.parametrize("count", [1, 7, 300, 100_000])
def test_a_scan_finds_every_message_once(count: int) -> None:
    directory = Directory()
    messages = [message_at(place) for place in range(1_000)]
    for message in messages:
        directory.add(message)
    for message in messages[100:700]:
        directory.remove(message)

    check_directory(directory)
    assert scan_all(directory, count) == messages[:100] + messages[700:]


def test_an_empty_directory_is_scanned_at_once() -> None:
    directory = Directory()

    assert directory.scan(0, 10) == (0, [])
    assert directory.scan(12_345, 10) == (0, [])
    check_directory(directory)


@pytest.mark.parametrize("seed", range(20))
def test_a_scan_finds_what_is_there_all_the_time_whatever_comes_and_goes(seed: int) -> None:
    random = Random(seed)
    directory = Directory()
    place = 0

    def add(count: int) -> list[WorkMessage]:
        nonlocal place
        place += count
        messages = [message_at(place - number) for number in range(count)]
        for message in messages:
            directory.add(message)
        return messages

    stay, others = add(600), add(600)
    more = add(900)
    stay += more[::3]
    others += [message for at, message in enumerate(more) if at % 3]
    found: list[WorkMessage] = []
    cursor = 0
    while True:
        cursor, some = directory.scan(cursor, random.randint(1, 100))
        found += some
        if not cursor:
            break
        others += add(random.randint(0, 20))
        for _ in range(random.randint(0, 60)):
            if others:
                directory.remove(others.pop(random.randrange(len(others))))
        check_directory(directory)

    assert set(stay) <= set(found)
    assert len(set(found)) == len(found)


def test_what_is_gone_takes_no_room_for_long() -> None:
    directory = Directory()
    stays = message_at(0)
    directory.add(stays)
    for place in range(1, 50_000):
        message = message_at(place)
        directory.add(message)
        directory.remove(message)

    check_directory(directory)
    assert len(directory._shelves) <= 2
    assert scan_all(directory, 10) == [stays]


@pytest.mark.parametrize("count", [1, 50, 10_000])
def test_a_scan_of_names_finds_each_once(count: int) -> None:
    shelves: Shelves[int] = Shelves()
    for number in range(3_000):
        shelves.add(b"%d" % number, number)
    for number in range(0, 3_000, 3):
        shelves.remove(b"%d" % number)
    shelves.remove(b"never")

    found: list[int] = []
    cursor = 0
    while True:
        cursor, some = shelves.scan(cursor, count)
        found += some
        if not cursor:
            break

    assert sorted(found) == [number for number in range(3_000) if number % 3]
    assert shelves.size == 2_000
    assert shelves.scan(1 << 40, 10) == (0, [])
