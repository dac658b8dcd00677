"""Register the format `quinque` with Spark.

Called by   Spark, which looks for it in every package whose name begins with pyspark_.
Calls       quinque.spark.source.

Not here: anything else.
"""

from __future__ import annotations

from quinque.spark.source import QuinqueDataSource

DefaultSource = QuinqueDataSource

__all__ = ["DefaultSource"]
