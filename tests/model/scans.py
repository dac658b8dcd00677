"""Scans of a store from their beginning to their end, pages as well, and how two are compared.

Called by   pair.py.
Calls       the store it is handed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgpack

from quinque.model.look_ops import BrowsePlaces
from quinque.model.rows import Row
from quinque.model.work_ops import ScanMessages, ScanQueues, WorkView
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.redis.store import RedisStore
from tests.model.words import plain


def scan_all(store: EmbeddedStore | RedisStore, op: ScanQueues | ScanMessages) -> list[Any]:
    """All that a scan finds until its cursor is 0."""
    found: list[Any] = []
    for _ in range(10_000):
        cursor, some = store.run(op)
        found += some
        if cursor == 0:
            return found
        op = replace(op, cursor=cursor)
    raise AssertionError("there is no end to it")


def all_rows(store: EmbeddedStore | RedisStore, op: BrowsePlaces) -> list[Row]:
    """The rows of all pages."""
    found: list[Row] = []
    for _ in range(10_000):
        page = store.run(op)
        rows = [Row(*fields) for fields in msgpack.unpackb(page.rows, raw=True)]
        assert len(rows) == page.count <= op.count
        found += rows
        if page.is_last:
            assert [row.place for row in found] == sorted({row.place for row in found})
            return found
        assert page.place > op.after
        op = replace(op, after=page.place)
    raise AssertionError("there is no end to it")


def by_id(views: list[WorkView]) -> list[WorkView]:
    compared: list[WorkView] = plain(views)
    return sorted(compared, key=lambda view: view.message_id)


def check_places(expected: list[WorkView], found: list[WorkView]) -> None:
    """In each queue messages have their places in the same order."""
    places = {view.message_id: view.place or 0 for view in found}
    for one, other in pairwise(sorted(expected, key=lambda view: (view.queue, view.place or 0))):
        if one.queue == other.queue:
            assert places[one.message_id] < places[other.message_id]
