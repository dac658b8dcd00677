"""Tables made of the lifecycle record: plain functions, DataFrame to DataFrame.

Called by   spark/jobs/, the declarative example, programs that have a Spark session.
Calls       pyspark.

    journal_raw ─► events ─┬─► lifecycle_partials ─► merge ─► lifecycle ─► audit, group_lag,
                 (once     │                                              dead_letters, size_hist,
                  each)    │                                              waits in queue_hour,
                           ├─► flow_partials ──────► merge ─► flow ──────► queue_hour,
                           │                                              consumer_hour
                           └─► ranges ─────────────► merge ─► seq_gaps ──► audit

A batch of events becomes a partial: counts, smallest and largest numbers and times, and
nothing else, so partials of several batches merge into what one of all of them would be, in
whatever order they came. All of them are of fixed width, so that Spark aggregates by hash; one
smallest or largest string among them and it would sort, three times slower.

Within a shard `seq` orders changes; times do not, since many changes share a millisecond. A message
is in one shard.

A row of lifecycle is a message of a worklist, or of a feed. In a feed it has one more for each
group that was handed the message: key is (queue, message_id, consumer_group), with the message
itself under the group "". An id that a producer used again in a feed, after the first message of
that name was gone, is one row with `additions` 2: counts are sums, and times reach from the first
to the last.

They may be declared in a pipeline, so they select columns and never add one with `withColumn`: a
Spark Connect server looks at the table at once for that, takes the one that is there, and makes
the new table before the one it is made of.

Not here: where tables are kept and what was read already (spark/jobs/lake.py).
"""

from __future__ import annotations
