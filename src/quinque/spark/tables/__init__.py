"""Tables made from the lifecycle log: functions from DataFrame to DataFrame.

Called by   spark/jobs/, the declarative example, programs that have a Spark session.
Calls       pyspark.

    journal_raw ─► events ─┬─► lifecycle_partials ─► merge ─► lifecycle ─► audit, group_lag,
                 (once     │                                              dead_letters, size_hist,
                  each)    │                                              waits in queue_hour,
                           ├─► flow_partials ──────► merge ─► flow ──────► queue_hour,
                           │                                              consumer_hour
                           └─► ranges ─────────────► merge ─► seq_gaps ──► audit

A batch of events becomes a partial. It has only counts, and smallest and largest numbers and times.
So partials of several batches merge into the partial of all of them, in any order. All values have
a fixed width, so that Spark aggregates by hash. With a smallest or largest string it would sort,
which is three times slower.

Within a shard `seq` orders changes; times do not, since many changes share a millisecond. A message
is in one shard.

A row of lifecycle is a message. In an events queue there is one more row for each group that got
the message: the key is (queue, message_id, consumer_group), and the group of the message itself is
"". If a producer uses an id again in an events queue, after the first message was removed, there is
one row with `additions` 2: counts are sums, and times reach from the first to the last.

The tables may be declared in a pipeline, so they select columns and never add one with
`withColumn`. For `withColumn`, a Spark Connect server would read the existing table at once, and
make the new table before the one that it needs.

Not here: the files of the tables and the batches that were read (spark/jobs/lake.py).
"""

from __future__ import annotations
