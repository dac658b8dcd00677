"""The format `quinque`: which reader or writer answers each call of Spark.

Called by   Spark, in processes of its own; it knows this class through the package pyspark_quinque.
Calls       options.py first, so that a wrong option is refused on the driver; then the readers and
            writers.

    readStream  mode=claim (default)   stream.py      read   mode=peek (default)   batch.py
                mode=log               log.py                mode=log              log.py
    writeStream, write                 sink.py

Not here: the session (session.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from quinque.spark.options import (
    CLAIM,
    LOG,
    PEEK,
    WRITE,
    BadOption,
    check_values,
    read_mode,
    read_options,
)
from quinque.spark.schema import chosen_columns, schema_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class QuinqueDataSource(DataSource):
    """Queues of a broker, as tables and streams. Spark gives the arguments by their names."""

    @classmethod
    def name(cls) -> str:
        return "quinque"

    def schema(self) -> str:
        check_values(self.options)
        if read_mode(self.options, PEEK) == LOG:
            from quinque.spark.log import log_schema_text

            return log_schema_text()
        return schema_text()

    def reader(self, schema: StructType) -> DataSourceReader:
        mode = read_mode(self.options, PEEK)
        if mode == CLAIM:
            raise BadOption(
                "option mode: claim requires readStream; use mode=peek for a batch read"
            )
        options = read_options(self.options, mode)
        if mode == LOG:
            from quinque.spark.log import LogReader, log_columns

            return LogReader(options, log_columns(schema))
        from quinque.spark.batch import PeekReader

        return PeekReader(options, chosen_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        mode = read_mode(self.options, CLAIM)
        if mode == PEEK:
            raise BadOption("option mode: peek requires a batch read; use mode=claim for a stream")
        options = read_options(self.options, mode, is_stream=True)
        if mode == LOG:
            from quinque.spark.log import LogStreamReader, log_columns

            return LogStreamReader(options, log_columns(schema))
        from quinque.spark.stream import ClaimStreamReader

        return ClaimStreamReader(options, chosen_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from quinque.spark.sink import QuinqueWriter
        from quinque.spark.staging import check_columns

        if overwrite:
            raise BadOption("a queue cannot be overwritten: write with mode('append')")
        options = read_options(self.options, WRITE)
        check_columns(schema, options)
        return QuinqueWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from quinque.spark.sink import QuinqueStreamWriter
        from quinque.spark.staging import check_columns

        if overwrite:
            raise BadOption("a queue cannot be overwritten: write with outputMode('append')")
        options = read_options(self.options, WRITE, is_stream=True)
        check_columns(schema, options)
        return QuinqueStreamWriter(options)
