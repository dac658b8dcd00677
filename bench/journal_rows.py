"""A random lifecycle log of many messages, as the exporter would write it.

Called by   bench/lifecycle_tables.py.
Calls       numpy, pyarrow.

Four of five messages are in a worklist: most are delivered once and acked, some leases end and
their messages are redelivered, a few messages expire or become dead. The others are in a feed with
two groups. Rows are in the order of time.

Not here: the tables that are built from them (src/quinque/spark/tables/).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quinque.model.families import EVENTS, JOBS
from quinque.model.lifecycle import Kind, Reason

EVENTS_PER_MESSAGE: Final = 3.26  # of what follows, counted; to know how many messages to make
_START_US: Final = 1_790_000_000_000_000
_SPAN_US: Final = 4 * 3_600_000_000
_QUEUES: Final = 20
_FILE_ROWS: Final = 1_000_000  # as many as the exporter puts into one

Numbers = np.ndarray[Any, np.dtype[Any]]


def write_journal(folder: Path, events: int, seed: int = 7) -> int:
    """Write files of a log of about this many state changes to the folder; return the number."""
    table = make_journal(int(events / EVENTS_PER_MESSAGE), seed)
    table = table.slice(0, min(events, len(table)))
    for start in range(0, len(table), _FILE_ROWS):
        part = table.slice(start, _FILE_ROWS)
        first, last = start + 1, start + len(part)
        target = folder / "journal_raw" / "dt=2026-09-21" / f"hour={start // _FILE_ROWS:02}"
        target.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, target / f"0-{first}-{last}.parquet", compression="zstd")
    return len(table)


def make_journal(messages: int, seed: int = 7) -> pa.Table:
    """Return the rows of this many messages."""
    chance = np.random.default_rng(seed)
    number = np.arange(messages)
    is_feed = number % 5 == 4
    added = np.sort(chance.integers(0, _SPAN_US, messages))
    wait = chance.exponential(40_000, messages).astype(np.int64) + 1
    run = chance.exponential(90_000, messages).astype(np.int64) + 1
    fate = chance.random(messages)
    parts: list[tuple[Numbers, Numbers, Kind, Reason, int]] = []

    def happens(who: Numbers, when: Numbers, kind: Kind, reason: Reason, group: int = 0) -> None:
        parts.append((number[who], when[who], kind, reason, group))

    everyone = np.ones(messages, bool)
    work = ~is_feed
    expires, dies, lapses = fate < 0.01, fate > 0.995, (fate > 0.9) & (fate <= 0.995)
    lives = work & ~expires
    begun = added + wait
    happens(everyone, added, Kind.ADDED, Reason.NONE)
    happens(work & expires, added + 1_000_000, Kind.EXPIRED, Reason.NONE)
    happens(lives, begun, Kind.DELIVERED, Reason.NONE)
    happens(lives & (lapses | dies), begun + 500_000, Kind.RETURNED, Reason.LAPSED)
    happens(lives & (lapses | dies), begun + 500_100, Kind.DELIVERED, Reason.NONE)
    happens(work & dies, begun + 900_000, Kind.DEAD, Reason.NACKED)
    done = begun + run + np.where(lapses, 500_100, 0)
    happens(lives & ~dies, done, Kind.ACKED, Reason.NONE)
    for group in (1, 2):
        happens(is_feed, begun + group, Kind.DELIVERED, Reason.NONE, group)
        happens(is_feed, done + group, Kind.ACKED, Reason.NONE, group)
    return _in_order(parts, is_feed, chance.integers(50, 150, messages).astype(np.int32))


def _in_order(
    parts: list[tuple[Numbers, Numbers, Kind, Reason, int]], is_feed: Numbers, sizes: Numbers
) -> pa.Table:
    who = np.concatenate([part[0] for part in parts])
    when = np.concatenate([part[1] for part in parts])

    def each(place: int, kind: Any) -> Numbers:
        return np.concatenate([np.full(len(part[0]), part[place], kind) for part in parts])

    kind, reason, group = each(2, np.int8), each(3, np.int8), each(4, np.int8)
    order = np.argsort(when, kind="stable")
    who, when, kind, group = who[order], when[order], kind[order], group[order]
    rows = len(who)
    names = pa.DictionaryArray.from_arrays(
        pa.array(group), pa.array(["", "mailer", "indexer"])
    ).cast(pa.string())
    queues = pa.DictionaryArray.from_arrays(
        pa.array((who % _QUEUES).astype(np.int32)),
        pa.array([f"queue-{number:02}" for number in range(_QUEUES)]),
    ).cast(pa.string())
    at_ms = (when + _START_US) // 1000 * 1000
    return pa.table(
        {
            "shard": pa.array(np.zeros(rows, np.int32)),
            "seq": pa.array(np.arange(1, rows + 1)),
            "ts": pa.array(at_ms).cast(pa.timestamp("us", "UTC")),
            "family": pa.array(np.where(is_feed[who], EVENTS.code, JOBS.code).astype(np.int8)),
            "queue": queues,
            "message_id": _ids(len(is_feed)).take(pa.array(who)),
            "kind": pa.array(kind),
            "reason": pa.array(reason[order]),
            "consumer_group": names,
            "claim": pa.array(np.zeros(rows, np.int64)),
            "size": pa.array(sizes[who], mask=kind != Kind.ADDED),
        }
    )


def _ids(messages: int) -> pa.Array:
    """Ids as long as those of jobs: D-<8>-<24>-<4>, 40 characters, unlike each other early on."""
    mixed = (np.arange(messages, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.empty((messages, 40), np.uint8)
    text[:] = np.frombuffer(b"D-5f0e1c2a-AAAAAAAA0000000000000000-05a1", np.uint8)
    for place in range(16):
        text[:, 19 + place] = digits[(mixed >> np.uint64(4 * place)) & np.uint64(15)]
    offsets = np.arange(0, 40 * messages + 1, 40, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), messages, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
