"""The commands that show a queue page by page: MESSAGES.PAGE MESSAGES.DIVIDE.

Called by   server/dispatch.py, through COMMANDS.
Calls       options.py.

Not here: the format of rows (model/rows.py), peeks of a family (its dialect).
"""

from __future__ import annotations

from typing import Final

from quinque.dialects.claim_replies import GROUP
from quinque.dialects.command import Command
from quinque.dialects.options import (
    Options,
    read_family,
    read_number,
    read_queue_of,
    read_states,
)
from quinque.dialects.stages import first_family, second_queue
from quinque.model.look_ops import BrowsePlaces, DividePlaces, Page, Places
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.wire.resp import Value


def parse_page(argv: list[bytes]) -> BrowsePlaces:
    """MESSAGES.PAGE family queue after until [COUNT n] [STATES states] [SHARD n]

    Return messages of the queue with a position after one and up to another (0 = the end), in
    the order of positions, up to COUNT (1000). STATES are ready,delayed,leased,dead or some of
    these. The reply has the number of messages, the last position, whether there are no more,
    and the messages, packed. Nothing changes.
    """
    family = read_family(argv[1])
    queue = read_queue_of(family, argv[2])
    after, until = read_number("after", argv[3]), read_number("until", argv[4])
    page = BrowsePlaces(family, queue, after, until, CHUNK_ROWS_MOST)
    options = Options("MESSAGES.PAGE", argv, 5)
    for word in options:
        match word:
            case b"COUNT":
                page.count = options.number(least=1)
            case b"STATES":
                page.states = read_states(options.value())
            case b"SHARD":
                page.shard = options.shard()
            case _:
                raise options.refused()
    return page


def reply_page(page: Page) -> Value:
    """[number, place, 1 or 0, rows]"""
    return [page.count, page.place, int(page.is_last), page.rows]


def parse_divide(argv: list[bytes]) -> DividePlaces:
    """MESSAGES.DIVIDE family queue parts [STATES states] [SHARD n]

    Return positions that divide the queue into parts of about the same size, for readers of
    MESSAGES.PAGE. The reply has the approximate number of messages, the number of shards, and
    the last position of each part.
    """
    family = read_family(argv[1])
    queue, parts = read_queue_of(family, argv[2]), read_number("parts", argv[3], least=1)
    divide = DividePlaces(family, queue, parts)
    options = Options("MESSAGES.DIVIDE", argv, 4)
    for word in options:
        match word:
            case b"STATES":
                divide.states = read_states(options.value())
            case b"SHARD":
                divide.shard = options.shard()
            case _:
                raise options.refused()
    return divide


def reply_divide(places: Places) -> Value:
    """[number, number, [place, …]]"""
    return [places.messages, places.shards, list(places.bounds)]


COMMANDS: Final = [
    Command(
        "MESSAGES.PAGE",
        GROUP,
        "read",
        -5,
        parse_page,
        reply_page,
        queues=second_queue,
        family=first_family,
    ),
    Command(
        "MESSAGES.DIVIDE",
        GROUP,
        "read",
        -4,
        parse_divide,
        reply_divide,
        queues=second_queue,
        family=first_family,
    ),
]
