"""A staged chunk, read: runs of messages that are alike, checked, with defaults filled in.

Called by   stores (Stage).
Calls       msgpack.

Not here: how a chunk is packed (model/stage_ops.py), what becomes of it (stores/).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import msgpack

from quinque.errors import BadArgument
from quinque.model.families import Family
from quinque.model.limits import NAME_MOST_BYTES, PUBLISH_MOST, SPAN_MOST_MS, WORK_TTL_MS
from quinque.model.work_ops import default_retry_ms

_DELIVERIES_MOST = 1 << 53  # what every client can count to


class Run(NamedTuple):
    """Messages that are alike. `name` is the id, or the key, of the only one; ttl_ms 0 is without
    end, in a feed and where ids are the queue's own."""

    ttl_ms: int
    delay_ms: int
    retry_ms: int
    max_deliveries: int
    name: bytes | None
    bodies: Sequence[bytes]


def staged_runs(family: Family, rows: bytes) -> list[Run]:
    """The runs of the chunk; none is empty. Raises BadArgument."""
    try:
        listed = msgpack.unpackb(rows, raw=True)
    except (ValueError, msgpack.UnpackException):
        _refuse("not valid msgpack")
    if not isinstance(listed, list) or not listed:
        _refuse("the list of runs is missing")
    runs = [_run(family, fields) for fields in listed]
    messages = sum(len(run.bodies) for run in runs)
    if messages > PUBLISH_MOST:
        _refuse(f"{messages} messages, but at most {PUBLISH_MOST} are allowed")
    return runs


def _run(family: Family, fields: Any) -> Run:
    if not isinstance(fields, list) or len(fields) != len(Run._fields):
        _refuse(f"a run must have {len(Run._fields)} fields")
    ttl_ms, delay_ms, retry_ms, max_deliveries, name, bodies = fields
    if not isinstance(bodies, list) or not bodies or not all(type(it) is bytes for it in bodies):
        _refuse("a run must have a list of bodies")
    if name is not None:
        if type(name) is not bytes or not 0 < len(name) <= NAME_MOST_BYTES:
            _refuse(f"a name must have 1 to {NAME_MOST_BYTES} bytes")
        if len(bodies) > 1:
            _refuse("a run with a name must have one body")
    _check("ttl_ms", ttl_ms, 0, SPAN_MOST_MS)
    _check("delay_ms", delay_ms, 0, SPAN_MOST_MS)
    _check("retry_ms", retry_ms, -1, SPAN_MOST_MS)
    _check("max_deliveries", max_deliveries, 0, _DELIVERIES_MOST)
    if not family.is_worklist:
        return Run(ttl_ms, 0, 0, 0, name, bodies)
    if family.owns_ids:  # without end, and nothing comes back by itself
        return Run(0, 0, 0, 0, name, bodies)
    ttl_ms = ttl_ms or WORK_TTL_MS
    if delay_ms >= ttl_ms:
        _refuse(f"delay_ms {delay_ms} is not less than ttl_ms {ttl_ms}")
    retry_ms = default_retry_ms(ttl_ms) if retry_ms < 0 else retry_ms
    return Run(ttl_ms, delay_ms, retry_ms, max_deliveries, name, bodies)


def _check(what: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        _refuse(f"{what} must be a number from {least} to {most}")


def _refuse(what: str) -> NoReturn:
    raise BadArgument(f"the rows are not a valid chunk of messages: {what}")
