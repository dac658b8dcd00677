"""Verify a data directory: print each problem with its location, and make safe repairs.

Called by   cli/main.py.
Calls       stores/embedded/survey.py, which reads, and repair.py, which makes the printed repairs.

Not here: how corruption is detected (records.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from quinque.errors import JournalDamaged, many
from quinque.stores.embedded.lock import FolderLock
from quinque.stores.embedded.manifest import find_manifest, segment_numbers, segment_path
from quinque.stores.embedded.repair import carry_out, plan
from quinque.stores.embedded.survey import Problem, State, Survey, survey

SOUND, DAMAGED, UNUSABLE = 0, 1, 2

_COLOURS: Final[dict[State, str]] = {
    "sound": "green",
    "empty": "green",
    "torn end": "yellow",
    "damaged": "red",
    "missing": "red",
}


def run(folder: str, repair: bool, as_json: bool = False) -> int:
    """Check the directory and return the exit code: 0 intact, 1 corrupted, 2 unusable. Raises
    FolderLocked."""
    path = Path(folder)
    if not path.is_dir():
        return _unusable(f"{folder} is not a directory", as_json)
    if not segment_numbers(path) and find_manifest(path) is None:
        return _unusable(f"{folder} contains no journal", as_json)
    try:
        lock = FolderLock(path, reads_only=not repair)
        try:
            return _check_for_programs(path, repair) if as_json else _check(path, repair)
        finally:
            lock.release()
    except OSError as exc:
        return _unusable(f"{exc.filename or folder}: {exc.strerror or exc}", as_json)


def _unusable(why: str, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"error": why, "exit_code": UNUSABLE}))
    click.echo(why, err=True)
    return UNUSABLE


def _check_for_programs(folder: Path, repair: bool) -> int:
    """Print the same as one JSON object. With --repair it describes the state after the repair."""
    found = survey(folder)
    if found.unusable:
        return _unusable(found.unusable, as_json=True)
    told: dict[str, Any] = {"folder": str(folder)}
    if found.damaged and repair:
        try:
            steps = plan(found)
        except JournalDamaged as exc:
            told["error"] = f"cannot repair {folder}: {exc}"
        else:
            told["repairs"] = [str(step) for step in steps]
            for step in steps:
                carry_out(step)
            found = survey(folder)
    told |= {
        "is_sound": not found.damaged,
        "queues": len(found.holds.queues),
        "messages": found.holds.messages,
        "leases": found.leases,
        "segments": [
            {
                "file": it.path.name,
                "size_bytes": it.file_bytes,
                "batches": it.batches,
                "records": it.records,
                "state": it.state,
            }
            for it in found.segments
        ],
        "problems": [asdict(problem) for problem in found.problems],
    }
    click.echo(json.dumps(told))
    return DAMAGED if found.damaged or found.unusable else SOUND


def _check(folder: Path, repair: bool) -> int:
    found = survey(folder)
    _show(found)
    if found.unusable:
        return UNUSABLE
    if not found.damaged:
        return SOUND
    if not repair:
        click.echo(
            "\nA broker cannot start on this directory. To save the intact data, run:\n    "
            f"quinque check --repair {folder}"
        )
        return DAMAGED
    return _repair(found)


def _repair(found: Survey) -> int:
    try:
        steps = plan(found)
    except JournalDamaged as exc:
        click.echo(f"\nCannot repair {found.folder}: {exc}", err=True)
        return DAMAGED
    click.echo("\nThe repair will")
    for step in steps:
        click.echo(f"    {step}")
    for step in steps:
        carry_out(step)
    click.echo("\nRepaired. The new state:\n")
    found = survey(found.folder)
    _show(found)
    return DAMAGED if found.damaged or found.unusable else SOUND


def _show(found: Survey) -> None:
    if found.unusable:
        click.echo(found.unusable, err=True)
        return
    head = ["segment", "bytes", "batches", "records", "state"]
    rows = [
        [it.path.name, f"{it.file_bytes:,}", f"{it.batches:,}", f"{it.records:,}", it.state]
        for it in found.segments
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row, segment in zip([head, *rows], [None, *found.segments], strict=True):
        name, *numbers, state = row
        cells = [name.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=False)]
        cells.append(state if segment is None else click.style(state, fg=_COLOURS[segment.state]))
        click.echo("  ".join(cells))
    holds = found.holds
    click.echo(
        f"\n{many(len(holds.queues), 'queue')}, {many(holds.messages, 'message')}, "
        f"{many(found.leases, 'lease')}"
        + (", as far as the journal is readable" if found.damaged else "")
    )
    for problem in found.problems:
        click.echo("\n" + _meaning(found, problem))


def _meaning(found: Survey, problem: Problem) -> str:
    """Return the location of a problem, its kind and its effect."""
    where = f"{segment_path(found.folder, problem.segment)} at byte {problem.at}: {problem.why}."
    if problem.is_torn:
        return (
            f"{where}\n    A crash left {many(problem.end - problem.at, 'byte')} there that were"
            " never acknowledged. This is harmless: the next start removes them."
        )
    lost = "All data in this segment is lost."
    if problem.end > problem.at:
        lost = f"{many(problem.end - problem.at, 'byte')} of data are lost."
    kept = "The rest of this segment contains no intact data."
    if problem.batches_after:
        batches = many(problem.batches_after, "batch", "batches")
        records = many(problem.records_after, "record")
        kept = f"Intact after this position: {batches} with {records}."
    return f"{where}\n    {lost} {kept}"
