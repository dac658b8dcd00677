"""Keep acked batches as Parquet files for a time.

Called by   stream.py, before it acks a claim.
Calls       schema.py, the broker; pyarrow (files on this machine, or on any of its file systems).

An ack deletes messages, which may be needed again if a mistake is found later. So the rows of each
claim are written to a file before the claim is committed:

    <keepDir>/claim-<queue>.<subscription>.<shard>.<created>.<number>.parquet

An existing file is complete: it gets its name when all of it is on disk. If the file cannot be
written, the claim is not acked. The rows pass through the process next to Spark's driver, some
chunks at a time.

Not here: the ack of a claim (stream.py), how long the broker keeps it (engine/claims/).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from quinque.client.sync.broker import Broker
from quinque.errors import NoClaim
from quinque.model.claim_ops import ReadClaim
from quinque.spark.journal_files import sync
from quinque.spark.options import BadOption, Options
from quinque.spark.schema import COLUMNS, ClaimName, Origin, rows_as_batch

_CHUNKS_AT_ONCE: Final = 10
_NAME_MOST: Final = 200  # characters; file systems have 255 bytes
_DROP_EVERY_S: Final = 60.0
_COLUMNS: Final = tuple(column.name for column in COLUMNS)


class Keeper:
    """The files of one query."""

    def __init__(self, options: Options, folder: str) -> None:
        """Use the directory. Raises BadOption if that is not possible."""
        self._options = options
        self._broker: Broker = options.broker()
        url = folder if "://" in folder else Path(folder).absolute().as_uri()
        try:
            self._files, self._root = pa.fs.FileSystem.from_uri(url)
            self._files.create_dir(self._root, recursive=True)
        except (pa.ArrowInvalid, OSError) as exc:
            raise BadOption(f"option keepDir: {folder} cannot be used: {exc}") from exc
        self._dropped_s = float("-inf")

    def keep(self, claim: ClaimName, created_us: int, chunks: int) -> None:
        """Write the rows of the claim to its file. Raises NoClaim, OSError."""
        path = f"{self._root}/{_file_name(claim, created_us)}"
        if self._files.get_file_info(path).type != pa.fs.FileType.NotFound:
            return
        # Hidden from Spark until it is whole.
        unfinished = f"{self._root}/.{path.rsplit('/', 1)[1]}.tmp"
        self._write(unfinished, claim, chunks)
        is_local = isinstance(self._files, pa.fs.LocalFileSystem)
        if is_local:
            sync(Path(unfinished))
        self._files.move(unfinished, path)
        if is_local:
            sync(Path(self._root))

    def drop_old(self) -> None:
        """Files are deleted when their time is over; looked at once a minute."""
        now_s = time.monotonic()
        if not self._options.keep_ms or now_s - self._dropped_s < _DROP_EVERY_S:
            return
        self._dropped_s = now_s
        oldest = datetime.now(UTC) - timedelta(milliseconds=self._options.keep_ms)
        for file in self._files.get_file_info(pa.fs.FileSelector(self._root)):
            is_ours = file.base_name.startswith("claim-") and file.extension == "parquet"
            if is_ours and file.mtime < oldest:
                self._files.delete_file(file.path)

    def _write(self, path: str, claim: ClaimName, chunks: int) -> None:
        origin = Origin(self._options.family.name, claim.queue, claim.shard, str(claim))
        schema = rows_as_batch([], origin, _COLUMNS).schema
        with (
            self._files.open_output_stream(path) as file,
            pq.ParquetWriter(file, schema, compression="zstd") as writer,
        ):
            at = 0
            while at < chunks:
                some = self._broker.run(
                    ReadClaim(
                        claim.queue,
                        claim.subscription,
                        claim.number,
                        chunk=at,
                        count=min(chunks - at, _CHUNKS_AT_ONCE),
                        shard=claim.shard,
                    )
                )
                if not some:
                    raise NoClaim(claim.subscription, claim.number, f"has no chunk {at}")
                writer.write_batch(rows_as_batch(some, origin, _COLUMNS))
                at += len(some)


def _file_name(claim: ClaimName, created_us: int) -> str:
    names = ".".join(quote(name, safe="") for name in (claim.queue, claim.subscription))
    if len(names) > _NAME_MOST:
        digest = sha256(names.encode()).hexdigest()
        names = f"{names[: _NAME_MOST - 33]}.{digest[:32]}"
    return f"claim-{names}.{claim.shard}.{created_us}.{claim.number}.parquet"
