"""Settings of a Spark that runs every query once, on a few rows.

Called by   conftest.py, test_commands.py, tests/faults/spark_job.py.
Calls       nothing.

Such a Spark spends most of its time on compilation. Without that of plans, and with the quick half
of Java's, half the time is left. Nor are classes verified, which come out of Spark's own jars.

Not here: the session (conftest.py).
"""

from __future__ import annotations

from typing import Final

JAVA_WORDS: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    # The quick half's own is so small that it is searched for room all the time.
    "-XX:ReservedCodeCacheSize=256m"
)

# Its logs are written in one step less: half the time of a small batch.
CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}

# How long Spark and its Pythons wait for each other. On a busy machine theirs, 15 s, is too short.
_PATIENCE_S: Final = 60
VARIABLES: Final = {"SPARK_AUTH_SOCKET_TIMEOUT": str(_PATIENCE_S)}

SETTINGS: Final = CHECKPOINTS | {
    "spark.python.authenticate.socketTimeout": f"{_PATIENCE_S}s",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
