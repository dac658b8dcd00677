"""The data pipeline: queues and the record of what happened in them, as tables.

Called by   Spark (the data source), cli/ (jobs and the exporter).
Calls       client/ (everything goes over the wire, from any machine), pyarrow and pyspark.

Importing this package imports neither of the two: a module that needs one says so itself.

Not here: what the broker keeps (stores/), what is on record (model/lifecycle.py).
"""

from __future__ import annotations
