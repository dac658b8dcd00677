"""The outcomes of claimed messages, from the column `_action` of rows.

Called by   sink.py: collected on the executors, sent to the broker on the driver.
Calls       pyarrow; the broker, for the epochs of claims.

    _action   ack    it is finished, as without a row
              nack   back to the queue, after _delay_ms if that is given
              delay  the same, and _delay_ms must be given
              dead   to the dead letters, for _reason
    _claim, _id      which message: as it was read

Not here: rows that are added (staging.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from quinque.client.sync.broker import Broker
from quinque.model.claim_ops import LookAtClaims, MarkClaim, Outcome
from quinque.spark.schema import ClaimName
from quinque.spark.staging import BadRow

_OUTCOMES: Final = {
    "ack": Outcome.ACK,
    "nack": Outcome.NACK,
    "delay": Outcome.NACK,
    "dead": Outcome.DEAD,
}
_IDS_MOST: Final = 1_000  # in one request


class Mark(NamedTuple):
    """The outcome of some messages of one claim."""

    claim: str
    outcome: int
    delay_ms: int
    reason: str


Marks = dict[Mark, list[str]]


def parted(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows that are put, and those that say what becomes of a message, if there are any."""
    if "_action" not in batch.schema.names:
        return batch, None
    is_put = pc.is_null(batch.column("_action"))
    if "body" not in batch.schema.names:
        return batch.slice(0, 0), batch
    return batch.filter(is_put), batch.filter(pc.invert(is_put))


def add_marks(marks: Marks, batch: pa.RecordBatch) -> None:
    """Add the outcomes of the rows to `marks`. Raises BadRow."""
    count = batch.num_rows
    columns = [
        batch.column(name).to_pylist() if name in batch.schema.names else [None] * count
        for name in ("_action", "_claim", "_id", "_delay_ms", "_reason")
    ]
    for action, claim, message_id, delay_ms, reason in zip(*columns, strict=True):
        outcome = _OUTCOMES.get(action)
        if outcome is None:
            raise BadRow(f"column _action: {action!r} is not one of {', '.join(_OUTCOMES)}")
        if claim is None or message_id is None:
            raise BadRow(
                f"column _action: {action} requires _claim and _id, and one of them is null"
            )
        if action == "delay" and delay_ms is None:
            raise BadRow("column _action: delay requires _delay_ms, and it is null")
        mark = Mark(claim, outcome, delay_ms or 0, reason or "")
        marks.setdefault(mark, []).append(message_id)


def merged(all_marks: Iterator[Marks]) -> Marks:
    """Merge the outcomes of all writers."""
    whole: Marks = {}
    for marks in all_marks:
        for mark, message_ids in marks.items():
            whole.setdefault(mark, []).extend(message_ids)
    return whole


def epochs_of(marks: Marks, broker: Broker) -> dict[str, int]:
    """Return the current epoch of each claim. It is not in the rows, because a batch that Spark
    repeats in a later epoch has the same rows. Raises BadRow."""
    epochs: dict[str, int] = {}
    for name in {mark.claim for mark in marks}:
        claim = _parsed(name)
        view = broker.run(LookAtClaims(claim.queue, claim.subscription, claim.shard))
        epochs[name] = view.epoch if view is not None else 0
    return epochs


def mark_operations(marks: Marks, epochs: dict[str, int]) -> Iterator[MarkClaim]:
    """Return the operations for the broker. Raises BadRow if the name of a claim is invalid."""
    for mark, message_ids in marks.items():
        claim = _parsed(mark.claim)
        once = list(dict.fromkeys(message_ids))  # a join may repeat a row
        for at in range(0, len(once), _IDS_MOST):
            yield MarkClaim(
                claim.queue,
                claim.subscription,
                claim.number,
                Outcome(mark.outcome),
                [message_id.encode() for message_id in once[at : at + _IDS_MOST]],
                mark.delay_ms,
                mark.reason.encode(),
                claim.shard,
                epochs.get(mark.claim, 0),
            )


def _parsed(name: str) -> ClaimName:
    try:
        return ClaimName.parsed(name)
    except ValueError:
        raise BadRow(f"column _claim: {name!r} is not the name of a claim") from None
