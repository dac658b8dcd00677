"""The jobs of the data pipeline, as functions that take a Spark session and return a summary.

Called by   cli/pipeline.py, programs that have a Spark session.
Calls       spark/tables/, spark/export.py, the format `quinque`, client/.

    ingest    files into a queue                     drain     a queue into files or a Delta table
    archive   the lifecycle record into the lake     report    the lake as a page with plots
    audit     whether the record adds up             redrive   dead messages back, by a condition

Not here: the tables (spark/tables/), output (cli/pipeline.py).
"""

from __future__ import annotations
