"""The manifest: which segments the journal has, so that a missing one is noticed.

The name of the file says it, with the first segment and the last:

    0000000003-0000000017.manifest

In it is the seal of the store (records.py), as 16 hexadecimal digits, for a segment whose own is
damaged. The file may be empty.

The name is replaced by a rename, which is atomic and needs neither room on the disk nor a file
descriptor. The journal adds a segment to the manifest after the file is on the disk, and removes a
segment from the manifest before it deletes the file. So a crash may leave one segment more than
the manifest names, at either end, and never one less.

A folder without a manifest opens, as it did before there were manifests, and gets one.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

from quinque.errors import JournalDamaged

SUFFIX: Final = ".journal"
_MANIFEST: Final = ".manifest"
_SEAL: Final = re.compile(rb"[0-9a-f]{16}")
_NAMED_MOST: Final = 5  # missing files that an error names


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:010d}{SUFFIX}"


def segment_numbers(folder: Path) -> list[int]:
    """The segments that are in the folder, oldest first."""
    return sorted(int(path.stem) for path in folder.glob("*" + SUFFIX) if path.stem.isdecimal())


def missing_segments(folder: Path) -> list[range]:
    """The segments that must be in the folder and are not: the gaps, oldest first."""
    found = segment_numbers(folder)
    manifest = find_manifest(folder)
    named = _numbers_in(manifest) if manifest is not None else range(0)
    ends = [*found[:1], *found[-1:], *named[:1], *named[-1:]]
    if not ends:
        return []
    around = [min(ends) - 1, *found, max(ends) + 1]
    return [range(one + 1, other) for one, other in pairwise(around) if one + 1 < other]


def refuse_missing(folder: Path) -> None:
    """Raises JournalDamaged when a segment is missing; the error names the files."""
    gaps = missing_segments(folder)
    if not gaps:
        return
    names: list[str] = []
    for number in chain.from_iterable(gaps):
        if len(names) == _NAMED_MOST:
            names.append(f"and {sum(map(len, gaps)) - _NAMED_MOST} more")
            break
        names.append(segment_path(folder, number).name)
    raise JournalDamaged(
        f"{folder}: journal files are missing: {', '.join(names)}. Restore them from a backup, "
        f"or run: quinque check {folder}"
    )


def find_manifest(folder: Path) -> Path | None:
    """The manifest, if there is one. Numbers only grow, so of two manifests, as a restored backup
    may leave them, the later one has the higher numbers."""
    found = [path for path in folder.glob("*" + _MANIFEST) if _numbers_in(path)]
    return max(found, key=lambda path: _numbers_in(path)[-1], default=None)


def replace_manifest(old: Path | None, folder: Path, segments: range, seal: int) -> Path:
    """The manifest names these segments; the caller syncs the folder. Raises OSError."""
    new = folder / f"{segments[0]:010d}-{segments[-1]:010d}{_MANIFEST}"
    is_renamed = False
    try:
        if old is not None:
            os.rename(old, new)
            is_renamed = True
    except FileNotFoundError:
        pass  # a person deleted it
    if not is_renamed:
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if seal:
        with suppress(OSError):  # without it the folder opens too
            if new.read_bytes() != b"%016x" % seal:
                new.write_bytes(b"%016x" % seal)
    return new


def seal_of(folder: Path) -> int:
    """The seal that is in the manifest; 0 if there is none."""
    manifest = find_manifest(folder)
    text = manifest.read_bytes() if manifest is not None else b""
    return int(text, 16) if _SEAL.fullmatch(text) else 0


def _numbers_in(manifest: Path) -> range:
    """The segments that the manifest names; none if the name is not one of a manifest."""
    first, _, last = manifest.stem.partition("-")
    if first.isdecimal() and last.isdecimal():
        return range(int(first), int(last) + 1)
    return range(0)
