"""The header of each Lua script is a contract, and this is what checks it against the script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quinque.errors import QuinqueError
from quinque.model import limits
from tests.facts.repository import PACKAGE, name

FOLDER = PACKAGE / "stores" / "redis" / "scripts"
FOLDERS = [FOLDER, PACKAGE / "workqueue" / "scripts"]
SCRIPTS = [path for folder in FOLDERS for path in sorted(folder.glob("*.lua"))]
LIBRARY = sorted((FOLDER / "lib").glob("*.lua"))
EVERY_FILE = [*SCRIPTS, *LIBRARY]

PARTS = ["KEYS", "ARGV", "RETURNS", "ERRORS", "SAME AS"]
ROW = re.compile(r"^--\s+(?:[A-Z]{4}\s+)?(\d+)(\.\.)?\s", re.MULTILINE)
INCLUDE = re.compile(r"^-- include (?:rarely )?lib/(\w+)\.lua$", re.MULTILINE)
SAME_AS = re.compile(r"((?:\w+/)+\w+\.py)((?:(?::|, )\s*\w+(?![/.\w]))*)")
CONSTANT = re.compile(r"^local (\w+) = (.+?)\s+-- model/limits\.py:(\w+)$", re.MULTILINE)


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_script_says_what_it_is_called_with(path: Path) -> None:
    header, body = parts_of(path)
    for part in ("KEYS", "ARGV"):
        rows = ROW.findall(section(header, part))
        numbers = [int(number) for number, _ in rows]
        assert numbers == list(range(1, len(rows) + 1)), part
        said = {int(number) for number, rest in rows if not rest}
        rest = {int(number) for number, rest in rows if rest}
        used = {int(number) for number in re.findall(part + r"\[(\d+)\]", body)}
        assert used - rest == said, part
        # Only the last row may stand for all that follow.
        assert rest <= {len(rows)}, part
        assert bool(rest) == bool(re.search(rf"#{part}\b|\b\w+_rest\({len(rows)}\)", body)), part


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_script_says_how_it_may_refuse(path: Path) -> None:
    header, body = parts_of(path)

    raised = set(re.findall(r"error_reply\('([A-Z]+)", body))

    assert raised == set(re.findall(r"\b[A-Z]{4,}\b", section(header, "ERRORS")))
    assert raised <= {kind.code for kind in every_error(QuinqueError)}


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_header_has_all_its_parts_and_begins_with_the_name(path: Path) -> None:
    header, _ = parts_of(path)

    assert header.startswith(f"-- {path.name}: ")
    assert re.findall(r"^-- ([A-Z]{4}(?: AS|[A-Z]*))  ", header, re.MULTILINE) == PARTS


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_a_file_of_the_library_is_named_for_its_function_and_begins_with_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    signature = re.search(rf"^local function ({path.stem}\(.*?\))", text, re.MULTILINE)
    assert signature is not None
    assert text.startswith(f"-- {signature[1]}: ")


@pytest.mark.parametrize("path", EVERY_FILE, ids=name)
def test_what_it_is_the_same_as_is_there(path: Path) -> None:
    text = re.sub(r"\n--\s*", " ", path.read_text(encoding="utf-8"))
    for file, names in SAME_AS.findall(text):
        there = (PACKAGE / file).read_text(encoding="utf-8")
        for each in re.findall(r"\w+", names):
            assert re.search(rf"^(?:\s*def |class )?{each}\b", there, re.MULTILINE), each


@pytest.mark.parametrize("path", EVERY_FILE, ids=name)
def test_a_limit_is_the_one_of_the_model(path: Path) -> None:
    for variable, value, limit in CONSTANT.findall(path.read_text(encoding="utf-8")):
        assert eval(value.replace("^", "**")) == getattr(limits, limit), variable


def test_nothing_is_left_over() -> None:
    python = {
        folder: "".join(file.read_text(encoding="utf-8") for file in folder.parent.glob("*.py"))
        for folder in FOLDERS
    }
    included = {it for path in EVERY_FILE for it in INCLUDE.findall(path.read_text("utf-8"))}

    assert [name(path) for path in SCRIPTS if f'"{path.stem}"' not in python[path.parent]] == []
    assert {path.stem for path in LIBRARY} == included


def parts_of(path: Path) -> tuple[str, str]:
    header, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    return header, body


def section(header: str, part: str) -> str:
    """The lines of that part of the header."""
    after = PARTS[PARTS.index(part) + 1]
    start = header.index(f"-- {part} ")
    return header[start : header.index(f"-- {after} ")].replace(f"-- {part} ", "-- ", 1)


def every_error(kind: type[QuinqueError]) -> list[type[QuinqueError]]:
    return [kind, *(it for child in kind.__subclasses__() for it in every_error(child))]
