"""A queue as a table of its messages now. Nothing changes.

Called by   Spark: `partitions` when it plans, `read` on the executors.
Calls       queues.py, schema.py, the broker.

A queue is divided by positions into parts with about the same number of messages. Each is read in
pages. Messages that are added later have positions after the last part, so they are not read. A
message that is removed while the query runs may be read or not.

Not here: reading and acking messages (stream.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from quinque.client.sync.broker import Broker
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.spark.options import Options
from quinque.spark.queues import find_queues
from quinque.spark.schema import Origin, rows_as_batch

if TYPE_CHECKING:
    import pyarrow as pa

_PAGE: Final = 5_000
_PARTS_MOST: Final = 1_000


@dataclass
class Stretch(InputPartition):
    """Messages of one shard of a queue with places after `after`, up to `until`."""

    queue: bytes
    shard: int
    after: int
    until: int


class PeekReader(DataSourceReader):
    """A batch read that looks."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with self._options.broker() as broker:
            return [
                stretch
                for queue in find_queues(broker, self._options)
                for stretch in self._stretches(broker, queue)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Stretch):
            # Spark makes a task where there are no partitions at all.
            return
        options = self._options
        origin = Origin(options.family.name, partition.queue, partition.shard)
        after = partition.after
        with options.broker() as broker:
            while after < partition.until:
                page = broker.run(
                    BrowsePlaces(
                        options.family,
                        partition.queue,
                        after,
                        partition.until,
                        _PAGE,
                        options.states,
                        partition.shard,
                    )
                )
                if page.count:
                    yield rows_as_batch([page.rows], origin, self._columns)
                if page.is_last:
                    return
                after = page.place

    def _stretches(self, broker: Broker, queue: bytes) -> Iterator[Stretch]:
        options = self._options
        shards, shard = 1, 0
        while shard < shards:
            divide = DividePlaces(options.family, queue, 1, options.states, shard)
            places = broker.run(divide)
            shards = places.shards
            wished = max(ceil(places.messages / options.max_records), options.min_partitions)
            if wished > 1:
                divide.parts = min(wished, _PARTS_MOST)
                places = broker.run(divide)
            after = 0
            for until in places.bounds:
                yield Stretch(queue, shard, after, until)
                after = until
            shard += 1
