"""The data pipeline: queues and the lifecycle log as tables.

Called by   Spark (the data source), cli/ (jobs and the exporter).
Calls       client/ (everything goes over the wire, from any machine), pyarrow and pyspark.

Importing this package imports neither of the two: a module that needs one imports it.

Not here: the messages of the broker (stores/), the entries of the lifecycle log
(model/lifecycle.py).
"""

from __future__ import annotations
