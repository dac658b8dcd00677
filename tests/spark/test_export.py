"""The exporter: all rows, each once, whatever happens to it; no JVM is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from quinque.cli.exporting import variables_of
from quinque.errors import BadSetting, FolderLocked
from quinque.model.families import EVENTS
from quinque.model.look_ops import FindRecords
from quinque.model.ops import Put
from quinque.server.config import Config
from quinque.spark.arrow import JOURNAL_SCHEMA
from quinque.spark.export import Exporter, export_until
from quinque.spark.journal_files import JournalFolder, read_spans
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.record_files import FILE_MS
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from quinque.stores.redis.store import RedisStore
from tests.server.broker import RunningBroker, start_broker
from tests.servers import stores
from tests.servers.patience import wait_until

HOUR_MS = 3_600_000
EXPORT_TIMEOUT_S = 300
ONE_OF_EACH = 3  # rows of a message that is added, taken and acked


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000_000)  # 2023-11-14 22:13:20 UTC


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedStore]:
    keeping = Keeping(max_age_ms=5 * HOUR_MS)
    store = EmbeddedStore(tmp_path / "data", clock=clock, fsync="no", keeping=keeping)
    yield store
    store.close()


def put(store: EmbeddedStore, count: int = 1) -> None:
    store.run(Put(EVENTS, b"q", [b"x"] * count))
    store.commit()


def files(folder: Path) -> list[str]:
    found = (folder / "journal_raw").rglob("*.parquet")
    return sorted(str(path.relative_to(folder / "journal_raw")) for path in found)


def seqs(folder: Path, shard: int = 0) -> list[int]:
    """The numbers of all rows that are in files."""
    found: list[int] = []
    for path in (folder / "journal_raw").glob(f"dt=*/hour=*/{shard}-*.parquet"):
        table = pq.read_table(path, partitioning=None)
        assert table.schema.equals(JOURNAL_SCHEMA)
        _, first, last = map(int, path.stem.split("-"))
        assert table.column("seq").to_pylist() == [*range(first, last + 1)]
        found += range(first, last + 1)
    return sorted(found)


def test_the_rows_of_another_store_are_refused(
    store: EmbeddedStore, clock: ManualClock, tmp_path: Path
) -> None:
    put(store, 3)
    export_until(store, tmp_path / "lake")
    another = EmbeddedStore(tmp_path / "another", clock=clock, fsync="no")
    put(another, 5)

    with pytest.raises(BadSetting, match=r"lake/journal_raw .* of another store"):
        export_until(another, tmp_path / "lake")

    another.close()
    assert seqs(tmp_path / "lake") == [1, 2, 3]


def test_a_file_has_the_rows_of_one_hour(
    store: EmbeddedStore, clock: ManualClock, tmp_path: Path
) -> None:
    put(store, 3)
    clock.advance(HOUR_MS)
    put(store, 2)

    done = export_until(store, tmp_path)

    assert (done.rows, done.files, done.gaps) == (5, 2, 0)
    assert files(tmp_path) == [
        "dt=2023-11-14/hour=22/0-1-3.parquet",
        "dt=2023-11-14/hour=23/0-4-5.parquet",
    ]
    assert seqs(tmp_path) == [1, 2, 3, 4, 5]


def test_it_goes_on_from_where_its_files_end(store: EmbeddedStore, tmp_path: Path) -> None:
    put(store, 3)
    export_until(store, tmp_path)
    assert export_until(store, tmp_path).rows == 0
    put(store, 2)

    assert export_until(store, tmp_path).rows == 2
    assert seqs(tmp_path) == [1, 2, 3, 4, 5]


def test_many_rows_are_several_files(store: EmbeddedStore, tmp_path: Path) -> None:
    told: list[int] = []
    for _ in range(10):
        put(store, 100)

    done = export_until(store, tmp_path, rows_most=300, on_rows=told.append)

    assert done.rows == sum(told) == 1_000
    assert seqs(tmp_path) == [*range(1, 1_001)]


def test_rows_that_were_dropped_before_they_were_read_are_a_gap(
    store: EmbeddedStore, clock: ManualClock, tmp_path: Path
) -> None:
    put(store, 2)
    export_until(store, tmp_path)
    for _ in range(9):
        put(store, 1)
        export_all(store)
        clock.advance(FILE_MS)
    put(store, 1)
    export_all(store)

    done = export_until(store, tmp_path)

    (path,) = (tmp_path / "journal_raw" / "_gaps").iterdir()
    gap = json.loads(path.read_text())
    assert (gap["shard"], gap["from"]) == (0, 3)
    assert path.name == f"0-3-{gap['to']}.json"
    assert (done.gaps, done.missing) == (1, gap["to"] - 2)
    assert seqs(tmp_path) == [1, 2, *range(gap["to"] + 1, 13)]
    assert export_until(store, tmp_path).gaps == 0, "it is known"


def test_a_folder_with_more_rows_than_the_broker_is_refused(
    store: EmbeddedStore, tmp_path: Path, clock: ManualClock
) -> None:
    put(store, 5)
    export_until(store, tmp_path)
    (tmp_path / "journal_raw" / "_logs.json").unlink()  # as in a lake of an older version
    other = EmbeddedStore(tmp_path / "other", clock=clock)

    with pytest.raises(BadSetting, match="up to 5, but the broker has rows only up to 0"):
        export_until(other, tmp_path)

    other.close()


def test_two_do_not_keep_one_folder_or_write_to_it_at_once(tmp_path: Path) -> None:
    with JournalFolder(tmp_path, is_kept=True) as kept:
        with pytest.raises(FolderLocked, match="another process is writing to"):
            JournalFolder(tmp_path, is_kept=True)
        with kept.writing(), pytest.raises(FolderLocked):
            JournalFolder(tmp_path, patience_s=0)

    JournalFolder(tmp_path, is_kept=True).close()


def test_another_one_exports_while_an_exporter_has_rows_in_memory(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    with JournalFolder(tmp_path, is_kept=True) as folder:
        exporter = Exporter(store, folder)
        put(store, 3)
        exporter.read()
        put(store, 2)

        assert export_until(store, tmp_path).rows == 5

        put(store, 1)
        exporter.flush()
        exporter.read()
        exporter.flush()

    assert exporter.done.rows == 1
    assert seqs(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_a_writer_that_was_killed_before_it_noted_its_files_is_noticed(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with JournalFolder(tmp_path, is_kept=True) as folder:
        exporter = Exporter(store, folder)
        put(store, 3)
        exporter.read()
        exporter.flush()
        put(store, 2)
        with monkeypatch.context() as patch:
            patch.setattr(JournalFolder, "_note_spans", failing(JournalFolder._note_spans, 0))
            with pytest.raises(OSError, match="it is to fail"):
                export_until(store, tmp_path)  # rows 4 and 5 are in a file
        put(store, 1)
        exporter.read()
        exporter.flush()

    assert exporter.done.rows == 4
    assert seqs(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_what_was_exported_is_noted_and_files_that_are_gone_do_not_change_that(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    put(store, 3)
    export_until(store, tmp_path)
    put(store, 2)
    export_until(store, tmp_path)
    for path in (tmp_path / "journal_raw").rglob("0-*.parquet"):
        path.unlink()

    JournalFolder(tmp_path).close()

    text = (tmp_path / "journal_raw" / "_exported.json").read_text()
    assert read_spans(text) == {0: (1, 6)}
    assert export_until(store, tmp_path).rows == 5, "the broker still has them"


def test_rows_before_a_gap_are_written_when_the_gap_is_noted(
    store: EmbeddedStore, clock: ManualClock, tmp_path: Path
) -> None:
    with JournalFolder(tmp_path) as folder:
        exporter = Exporter(store, folder)
        put(store, 2)
        exporter.read()
        for _ in range(10):
            put(store, 1)
            export_all(store)
            clock.advance(FILE_MS)
        put(store, 1)
        export_all(store)
        exporter.read()
        assert exporter.done.gaps == 1
        assert seqs(tmp_path)[:2] == [1, 2]
        exporter.flush()

    (path,) = (tmp_path / "journal_raw" / "_gaps").iterdir()
    gap = json.loads(path.read_text())
    assert seqs(tmp_path) == [1, 2, *range(gap["to"] + 1, 14)]


@pytest.mark.parametrize("name", ["replace", "mkdir"])
def test_what_was_not_finished_is_written_again(
    store: EmbeddedStore, clock: ManualClock, tmp_path: Path, name: str
) -> None:
    for _ in range(4):
        put(store, 3)
        clock.advance(HOUR_MS)
    for calls in range(8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, name, failing(getattr(Path, name), calls))
            try:
                export_until(store, tmp_path)
            except OSError:
                continue
            break

    assert seqs(tmp_path) == [*range(1, 13)]
    assert not list((tmp_path / "journal_raw").rglob(".*"))


def test_nothing_is_read_that_is_not_committed(store: EmbeddedStore, tmp_path: Path) -> None:
    store.run(Put(EVENTS, b"q", [b"x"]))

    assert export_until(store, tmp_path).rows == 0


@pytest.mark.parametrize("kind", stores.SHARED)
def test_every_shard_of_a_store_on_redis_has_files(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path, kind: str
) -> None:
    store = RedisStore(stores.empty_store_url(request, kind), clock=clock)
    for number in range(20):
        store.run(Put(EVENTS, b"q%d" % number, [b"x"] * 3))
    before = {record.shard: record.next for record in store.run(FindRecords())}

    first = export_until(store, tmp_path)
    store.run(Put(EVENTS, b"q7", [b"x"]))
    second = export_until(store, tmp_path)
    store.close()

    assert (first.rows, second.rows, first.gaps) == (60, 1, 0)
    assert len(before) > 10
    for shard, end in before.items():
        assert seqs(tmp_path, shard)[: end - 1] == [*range(1, end)]


# -- as a process ------------------------------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with start_broker(tmp_path, "--fsync", "no", "--lifecycle-export", str(lake(tmp_path))) as it:
        yield it


def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def work(broker: RunningBroker, count: int) -> None:
    """So many messages are added, taken and acked."""
    with broker.connect() as client:
        for _ in range(count):
            client.call("QADD", "q", "600", "body")
            id = client.call("QGET", "q", "g", "EX", "600")[0]
            assert client.call("QACK", "q", "g", id) == 1


def export_once(broker: RunningBroker, folder: Path, **variables: str) -> int:
    url = f"redis://127.0.0.1:{broker.port}"
    words = [sys.executable, "-m", "quinque.spark.export", "--url", url, "--folder", str(folder)]
    done = subprocess.run(
        [*words, "--once"], timeout=EXPORT_TIMEOUT_S, check=False, env={**os.environ, **variables}
    )
    return done.returncode


def test_once_ends_when_everything_is_there(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--fsync", "no") as broker:
        work(broker, 50)

        assert export_once(broker, lake(tmp_path)) == 0
        assert seqs(lake(tmp_path)) == [*range(1, 50 * ONE_OF_EACH + 1)]


def test_a_password_comes_from_the_environment(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--requirepass", "secret") as broker:
        assert export_once(broker, lake(tmp_path)) == 1
        assert export_once(broker, lake(tmp_path), QUINQUE_PASSWORD="secret") == 0


def test_the_exporter_of_a_broker_connects_as_the_default_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("USERNAME", "PASSWORD", "PASSWORD_FILE"):
        monkeypatch.setenv(f"QUINQUE_{name}", "of a client")
    config = Config()
    variables_of(config)
    config.requirepass = "new"  # as CONFIG SET does

    variables = variables_of(config)

    assert variables["QUINQUE_PASSWORD"] == "new"
    assert not variables.keys() & {"QUINQUE_USERNAME", "QUINQUE_PASSWORD_FILE"}


def test_a_broker_that_stops_has_exported_everything(broker: RunningBroker, tmp_path: Path) -> None:
    wait_until(lambda: (lake(tmp_path) / "journal_raw" / "_lock").exists(), "the exporter")
    work(broker, 50)

    assert broker.stop() == 0

    assert seqs(lake(tmp_path)) == [*range(1, 50 * ONE_OF_EACH + 1)]


def test_killed_with_its_broker_or_alone_it_leaves_every_row_once(
    broker: RunningBroker, tmp_path: Path
) -> None:
    rows = 0
    for ending in ("broker", "exporter", "stop"):
        pid = exporter_of(broker)
        work(broker, 50)
        rows += 50 * ONE_OF_EACH
        if ending == "exporter":
            os.kill(pid, signal.SIGKILL)
            broker.hear("the lifecycle exporter ended with exit code -9")
        if ending != "stop":
            broker.kill()
            broker.restart()
    broker.stop()

    assert export_or_there(tmp_path, rows)


def export_or_there(tmp_path: Path, rows: int) -> bool:
    """Whether every row is there, when one more exporter has looked."""
    with start_broker(tmp_path, "--fsync", "no") as broker:
        assert export_once(broker, lake(tmp_path)) == 0
    return seqs(lake(tmp_path)) == [*range(1, rows + 1)]


def exporter_of(broker: RunningBroker) -> int:
    """The process id of the exporter that the broker has started."""
    found: list[int] = []

    def is_there() -> bool:
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
        for pid in children:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                if b"quinque.spark.export" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
        return bool(found)

    wait_until(is_there, "the exporter")
    return found[0]


def export_all(store: EmbeddedStore) -> None:
    """As somebody who reads does: what was committed is in the record's files."""
    store._record.write()
    store._record._retire()


def failing(real: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """The function, which fails from the call after so many on."""
    left = iter(range(calls))

    def made(*args: Any, **options: Any) -> Any:
        if next(left, None) is None:
            raise OSError("it is to fail")
        return real(*args, **options)

    return made


def test_an_exporter_that_reads_several_times_writes_each_row_once(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    with JournalFolder(tmp_path) as folder:
        exporter = Exporter(store, folder)
        for _ in range(3):
            put(store, 2)
            assert exporter.read() == 2
        exporter.flush()
        exporter.flush()

    assert exporter.ends == {0: 7}
    assert files(tmp_path) == ["dt=2023-11-14/hour=22/0-1-6.parquet"]
