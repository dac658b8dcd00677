"""quinque check: what it says of a folder, how it ends, and that a repair keeps what is intact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import click.testing
import msgpack
import pytest

from quinque.cli.main import main
from quinque.errors import JournalDamaged
from quinque.model.events import OPENED, STORED, Opened
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Put, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.records import VERSION, Batch, batch_header, read_batches
from quinque.stores.embedded.repair import carry_out, plan
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.embedded.survey import survey
from tests.store.picture import messages_of, picture_of

HOUR_MS = 3_600_000
MESSAGES = 34
BODIES = [b"%03d" % number + b"." * 80 for number in range(MESSAGES)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with five segments: a batch for each message, and no two alike."""
    store = EmbeddedStore(
        tmp_path / "data", clock=ManualClock(), segment_bytes=1_000, fsync="always"
    )
    for body in BODIES:
        store.run(Put(EVENTS, b"q", [body]))
        store.commit()
    assert len(store.journal.sizes) == 5
    store.close()
    return tmp_path / "data"


def check(folder: Path, *options: str) -> tuple[int, str]:
    """How the command ends, and what it says."""
    done = click.testing.CliRunner().invoke(main, ["check", *options, str(folder)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.journal"))


def batches(path: Path) -> list[Batch]:
    return [batch for batch in read_batches(path.read_bytes()) if isinstance(batch, Batch)]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name != "lock"
    }


def bodies_in(folder: Path) -> list[bytes]:
    """What a broker finds there, and that it goes on with it."""
    store = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=1_000)
    found = messages_of(store).get(b"q", [])
    store.run(Put(EVENTS, b"more", [b"1"]))
    store.close()
    again = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=1_000)
    assert messages_of(again) == {**({b"q": found} if found else {}), b"more": [b"1"]}
    again.close()
    return found


def without(*lost: bytes) -> list[bytes]:
    return [body for body in BODIES if body not in lost]


def body_of(batch: Batch) -> bytes:
    return next(body for body in BODIES if body in batch.body)


# -- what it says -------------------------------------------------------------------------------


def test_a_sound_folder_is_listed_and_left_as_it_is(folder: Path) -> None:
    before = contents(folder)

    code, said = check(folder)

    assert code == 0
    lines = said.splitlines()
    assert lines[0].split() == ["segment", "bytes", "batches", "records", "state"]
    path, found = segments(folder)[1], batches(segments(folder)[1])
    size = f"{path.stat().st_size:,}"
    assert lines[2].split() == [path.name, size, str(len(found)), str(len(found) - 1), "sound"]
    assert "1 queue, 34 messages, 0 leases" in said
    assert contents(folder) == before


def test_what_the_folder_holds_is_counted(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path, clock=ManualClock())
    ids = store.run(Put(EVENTS, b"q", [b"1", b"2", b"3"]))
    store.run(Put(EVENTS, b"r", [b"4"]))
    store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS, count=2))
    store.run(Ack(EVENTS, b"q", b"g", ids[:1]))
    store.close()

    assert "2 queues, 4 messages, 1 lease\n" in check(tmp_path)[1]


def test_a_torn_end_is_reported_and_harmless(folder: Path) -> None:
    path = segments(folder)[-1]
    last = batches(path)[-1]
    path.write_bytes(path.read_bytes()[: last.end - 5])
    before = contents(folder)

    for options in ([], ["--repair"]):
        code, said = check(folder, *options)

        assert code == 0
        assert f"{path} at byte {last.start}: the file ends inside a batch" in said
        assert f"{last.end - 5 - last.start} bytes there that were never acknowledged" in said
        assert "This is harmless" in said
        assert contents(folder) == before
    assert bodies_in(folder) == without(BODIES[-1])


def test_room_that_was_reserved_is_no_damage(folder: Path) -> None:
    """As a kill leaves it: the newest segment goes on with zeros."""
    path = segments(folder)[-1]
    path.write_bytes(path.read_bytes() + bytes(100_000))

    assert check(folder)[0] == 0


def test_a_newest_segment_with_nothing_in_it_is_no_damage(folder: Path) -> None:
    (folder / "0000000006.journal").write_bytes(b"")

    code, said = check(folder)

    assert code == 0
    assert said.splitlines()[6].split() == ["0000000006.journal", "0", "0", "0", "empty"]


def test_damage_is_said_with_its_place_and_what_it_means_and_nothing_is_changed(
    folder: Path,
) -> None:
    path = segments(folder)[1]
    damaged = batches(path)[2]
    flip(path, damaged.end - 5)
    before = contents(folder)

    code, said = check(folder)

    assert code == 1
    assert f"{path} at byte {damaged.start}: a batch does not match its checksum" in said
    left = len(batches(segments(folder)[2])) - 3
    assert f"{damaged.end - damaged.start} bytes of data are lost." in said
    assert f"Intact after this position: {left} batches with {left} records." in said
    assert "33 messages, 0 leases, as far as the journal is readable" in said
    assert f"quinque check --repair {folder}" in said
    assert contents(folder) == before
    with pytest.raises(JournalDamaged):
        EmbeddedStore(folder, clock=ManualClock())


def test_programs_are_told_the_same_as_one_object(folder: Path) -> None:
    damaged = batches(segments(folder)[1])[2]
    flip(segments(folder)[1], damaged.end - 5)

    code, said = check(folder, "--json")
    told = json.loads(said)
    assert (code, told["is_sound"], told["queues"]) == (1, False, 1)
    assert [(it["segment"], it["at"]) for it in told["problems"]] == [(2, damaged.start)]
    assert told["segments"][1]["state"] == "damaged"
    code, said = check(folder, "--json", "--repair")
    told = json.loads(said)
    assert (code, told["is_sound"], len(told["repairs"])) == (0, True, 1)
    code, said = check(folder / "none", "--json")
    assert (code, json.loads(said.splitlines()[0])["exit_code"]) == (2, 2)


def test_no_colours_are_written_where_nobody_sees_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[" not in check(folder)[1]

    runner = click.testing.CliRunner(env={"NO_COLOR": "1"})
    done = runner.invoke(main, ["check", str(folder)], color=True)

    assert "\x1b[" not in done.output


def test_a_folder_in_use_is_refused(folder: Path) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())

    code, said = check(folder, "--repair")

    assert code == 1
    assert "is in use by the process" in said
    store.close()


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, Path.touch])
def test_what_is_no_data_folder_is_unusable_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "nothing"
    make(path)
    before = sorted(tmp_path.rglob("*"))

    code, said = check(path, "--repair")

    assert code == 2
    assert "is not a directory" in said or "contains no journal" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_a_journal_of_another_version_is_unusable_and_left_alone(tmp_path: Path) -> None:
    body = msgpack.packb(Opened(OPENED, VERSION + 1, 1, 0, 0))
    (tmp_path / "0000000001.journal").write_bytes(batch_header(body, 1, 0) + body)
    before = contents(tmp_path)

    code, said = check(tmp_path, "--repair")

    assert code == 2
    assert f"has version {VERSION + 1}; this release reads version {VERSION}" in said
    assert contents(tmp_path) == before


# -- what a repair does -------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["header", "body"])
@pytest.mark.parametrize("segment", range(5))
def test_every_message_outside_the_damaged_batch_is_there_after_a_repair(
    folder: Path, segment: int, where: str
) -> None:
    path = segments(folder)[segment]
    damaged = batches(path)[2]
    at = damaged.start + 10 if where == "header" else damaged.end - 5
    flip(path, at)
    bad = path.read_bytes()[damaged.start : damaged.end]

    code, said = check(folder, "--repair")

    aside = folder / f"damaged-{segment + 1}-{damaged.start}.bin"
    announced = (
        f"copy {len(bad)} bytes of {path.name}, from byte {damaged.start} on, to {aside.name}"
    )
    assert announced in said
    assert said.index("The repair will") < said.index(announced) < said.index("Repaired.")
    assert code == 0
    assert aside.read_bytes() == bad
    assert aside.stat().st_mode & 0o777 == 0o600
    assert bodies_in(folder) == without(body_of(damaged))
    assert check(folder)[0] == 0


@pytest.mark.parametrize("segment", range(5))
def test_a_segment_whose_beginning_is_damaged_loses_only_that(folder: Path, segment: int) -> None:
    path = segments(folder)[segment]
    flip(path, 5)

    assert check(folder, "--repair")[0] == 0

    assert bodies_in(folder) == BODIES


@pytest.mark.parametrize("segment", range(5))
def test_a_segment_whose_last_batch_is_damaged_loses_only_that(folder: Path, segment: int) -> None:
    path = segments(folder)[segment]
    last = batches(path)[-1]
    flip(path, last.end - 5)

    assert check(folder, "--repair")[0] == 0

    assert bodies_in(folder) == without(body_of(last))


def test_several_damaged_places_are_all_put_aside(folder: Path) -> None:
    path, other = segments(folder)[1], segments(folder)[3]
    second, fourth, first = batches(path)[2], batches(path)[4], batches(other)[1]
    flip(path, second.start)  # with its header, so that the next one must be searched for
    flip(path, fourth.end - 5)
    flip(other, first.end - 5)

    assert check(folder, "--repair")[0] == 0

    assert len(list(folder.glob("damaged-*.bin"))) == 3
    assert bodies_in(folder) == without(*map(body_of, (second, fourth, first)))


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_segment_that_lost_its_end_loses_only_that(folder: Path, is_whole: bool) -> None:
    path = segments(folder)[2]
    lost = batches(path)[3:]
    data = path.read_bytes()
    path.write_bytes(data[: lost[0].start + (0 if is_whole else 50)])

    code, said = check(folder)
    assert code == 1
    assert f"{path} at byte {lost[0].start}: " in said
    assert check(folder, "--repair")[0] == 0

    assert path.stat().st_size == len(data), "all else stays where it is"
    assert bodies_in(folder) == without(*map(body_of, lost))


@pytest.mark.parametrize(
    "missing", [[1], [1, 2], [2, 3], [1, 2, 3], [0], [4], [3, 4], [0, 1, 4], [0, 1, 2, 3, 4]]
)
def test_segments_that_are_missing_are_made_with_nothing_in_them(
    folder: Path, missing: list[int]
) -> None:
    lost: list[bytes] = []
    for at in missing:
        lost += [body_of(batch) for batch in batches(segments(folder)[at])[1:]]
    for path in [segments(folder)[at] for at in missing]:
        path.unlink()

    code, said = check(folder)
    assert code == 1
    assert "the segment is missing" in said
    code, said = check(folder, "--repair")

    assert code == 0
    assert f"create {missing[0] + 1:010d}.journal and mark all its data as lost" in said
    assert bodies_in(folder) == without(*lost)


@pytest.mark.parametrize("left", [b"", bytes(500), b"garbage" * 20])
def test_a_segment_of_which_nothing_is_left_is_made_again(folder: Path, left: bytes) -> None:
    path = segments(folder)[1]
    lost = [body_of(batch) for batch in batches(path)[1:]]
    path.write_bytes(left)

    assert check(folder)[0] == 1
    assert check(folder, "--repair")[0] == 0

    assert bodies_in(folder) == without(*lost)
    assert [path.read_bytes() for path in folder.glob("*.bin")] == ([left] if left else [])


def test_bytes_from_elsewhere_after_the_end_are_put_aside(folder: Path) -> None:
    path = segments(folder)[-1]
    garbage = Random(1).randbytes(100)
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + garbage)

    assert check(folder, "--repair")[0] == 0

    assert (folder / f"damaged-5-{end}.bin").read_bytes() == garbage
    assert bodies_in(folder) == BODIES


def test_a_damaged_folder_with_a_torn_end_is_mended_and_the_end_left_to_the_start(
    folder: Path,
) -> None:
    path = segments(folder)[-1]
    second, last = batches(path)[2], batches(path)[-1]
    flip(path, second.end - 5)
    path.write_bytes(path.read_bytes()[: last.end - 5])

    code, said = check(folder, "--repair")

    assert code == 0
    assert "This is harmless" in said
    assert bodies_in(folder) == without(body_of(second), body_of(last))


def test_what_looks_like_a_batch_in_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    """Somebody stored a journal in a message, and the header of that message is damaged."""
    fake = msgpack.packb((STORED, b"q", EVENTS.code, 1, 0, False, None, None, [b"fake"]))
    store = EmbeddedStore(tmp_path, clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"real " + batch_header(fake, 1, 0) + fake + b" more"]))
    store.commit()
    store.run(Put(EVENTS, b"q", [b"last"]))
    store.close()
    (path,) = segments(tmp_path)
    flip(path, batches(path)[1].start + 5)

    assert check(tmp_path, "--repair")[0] == 0

    assert bodies_in(tmp_path) == [b"last"]


def test_a_repair_that_was_interrupted_is_taken_up_again(folder: Path) -> None:
    lost = []
    for path in segments(folder)[1:4]:
        lost.append(batches(path)[2])
        flip(path, lost[-1].end - 5)
    first, second, _ = plan(survey(folder))
    carry_out(first)
    # Of the second, the copy was made and half of the filling was written.
    data = bytearray(second.path.read_bytes())
    (folder / f"damaged-3-{second.at}.bin").write_bytes(data[second.at : second.end])
    data[second.at : second.at + 40] = second.filling[:40]
    second.path.write_bytes(data)

    assert check(folder, "--repair")[0] == 0

    assert (folder / f"damaged-3-{second.at}-2.bin").exists(), "the first copy is not touched"
    assert bodies_in(folder) == without(*map(body_of, lost))


def test_a_repair_of_what_is_sound_does_nothing(folder: Path) -> None:
    before = contents(folder)

    assert check(folder, "--repair")[0] == 0

    assert contents(folder) == before


@pytest.mark.parametrize("seed", range(20))
def test_one_bit_anywhere_costs_one_batch_at_most(folder: Path, seed: int) -> None:
    random = Random(seed)
    path = random.choice(segments(folder))
    at = random.randrange(path.stat().st_size)
    (hit,) = [batch for batch in batches(path) if batch.start <= at < batch.end]
    flip(path, at)

    assert check(folder)[0] == 1
    assert check(folder, "--repair")[0] == 0

    lost = [body for body in BODIES if body in hit.body]
    assert bodies_in(folder) == without(*lost)


def test_what_the_lost_records_said_of_messages_may_have_to_be_done_again(tmp_path: Path) -> None:
    """The ack of a message is lost: it is delivered again, and nothing else is disturbed."""
    store = EmbeddedStore(tmp_path, clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"1"], message_id=b"x", is_single=True))
    store.commit()
    store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS))
    store.commit()
    store.run(Ack(EVENTS, b"q", b"g", [b"x"]))
    store.commit()
    store.run(Put(EVENTS, b"q", [b"2"], message_id=b"x", is_single=True))
    store.run(Put(EVENTS, b"q", [b"3"], message_id=b"y", is_single=True))
    store.close()
    (path,) = segments(tmp_path)
    flip(path, batches(path)[3].end - 2)

    assert check(tmp_path, "--repair")[0] == 0

    store = EmbeddedStore(tmp_path, clock=ManualClock())
    given = store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS, count=5))
    assert [it.body for it in given] == [b"2", b"3"]
    assert store.bodies.count == len(picture_of(store)[b"q"][1]) == 2
    store.close()
