"""Settings of a Spark that runs every query once, on a few rows.

Called by   conftest.py, test_commands.py, tests/faults/spark_job.py.
Calls       nothing.

Such a Spark spends most of its time on compilation. Without that of plans, and with the quick half
of Java's, half the time is left.

Not here: the session (conftest.py).
"""

from __future__ import annotations

from typing import Final

JAVA_WORDS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Its logs are written in one step less: half the time of a small batch.
CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}

SETTINGS: Final = CHECKPOINTS | {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
