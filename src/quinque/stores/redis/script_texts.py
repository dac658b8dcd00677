"""The text of a Lua script, put together from its file and those of the library.

Called by   scripts.py.
Calls       nothing; it reads scripts/*.lua.

A line `-- include lib/name.lua` stands for that file, once; includes may include.

All of a script is carried out at every call, and to make a function costs Redis 0.1 µs. So what
most calls do not need is made when it is called: `-- include rarely lib/name.lua` stands for a
function that makes the one of that name, with all it needs that is not there yet, and calls it.

    local work_settle                       where it is included
    …                                       the rest of what is included
    work_settle = function(...)             when all that is
      local function work_load …              what only this one needs
      local function work_settle …
      return work_settle(...)
    end

A file that is included both ways is always made. So is a file that keeps something in a variable of
its own, because there must be only one.

Numbers that have a name, `local NAME = 1`, are written where the name is: each local that a
function uses makes it dearer to make that function.

Not here: which scripts there are (scripts.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "scripts"
_INCLUDE: Final = re.compile(r"^-- include (rarely )?lib/(\w+)\.lua$")
_NUMBERS: Final = re.compile(r"^local ([A-Z][A-Z_, ]*) = ([\d.^, ]+?)(?: *--.*)?$", re.MULTILINE)
# Also matches quoted text and comments, because nothing in them is a name.
_NAME: Final = re.compile(r"'[^'\n]*'|--[^\n]*|\b[A-Z][A-Z_]*\b")
_VARIABLE: Final = re.compile(r"^local (?!function )[a-z]")


def script_text(path: Path) -> str:
    """The file with all it includes, each before it is used; numbers have no names."""
    text = "\n".join(_Script(path).lines())
    numbers: dict[str, str] = {}
    for names, values in _NUMBERS.findall(text):
        numbers.update(zip(names.split(", "), values.split(", "), strict=True))
    if not numbers:
        return text

    def written(found: re.Match[str]) -> str:
        number = numbers.get(found[0])
        return found[0] if number is None else f"({number})"

    return _NAME.sub(written, _NUMBERS.sub("", text))


class _Script:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._always: set[str] = set()  # files of the library that are always made
        self._seen: set[str] = set()  # of those, the ones that are in the text
        self._rare: dict[str, None] = {}  # files whose functions are made when they are called
        self._find_always()

    def lines(self) -> Iterator[str]:
        lines = _read(self._path)
        last = max((at for at, line in enumerate(lines) if _INCLUDE.match(line)), default=-1)
        yield from self._made(lines[: last + 1])
        for name in sorted(self._always - self._seen):
            yield from self._include(name)
        for name in self._rare:
            yield f"{name} = function(...)"
            yield from self._nested(name, set(self._seen))
            yield f"return {name}(...)"
            yield "end"
        yield from lines[last + 1 :]

    def _find_always(self) -> None:
        todo = [name for name, is_rare in _includes(self._path) if not is_rare]
        rare = {name for name, is_rare in _includes(self._path) if is_rare}
        while todo:
            name = todo.pop()
            if name not in self._always:
                self._always.add(name)
                for other, is_rare in _includes(_file(name)):
                    (rare.add if is_rare else todo.append)(other)
            if not todo:
                todo = [it for it in _closure(rare) - self._always if _has_variable(it)]

    def _made(self, lines: list[str]) -> Iterator[str]:
        """The lines, with what they include that is not there yet."""
        for line in lines:
            include = _INCLUDE.match(line)
            if include is None:
                yield line
            elif include[2] in self._always:
                yield from self._include(include[2])
            elif include[2] not in self._rare:
                self._rare[include[2]] = None
                yield f"local {include[2]}"

    def _include(self, name: str) -> Iterator[str]:
        if name not in self._seen:
            self._seen.add(name)
            yield from self._made(_read(_file(name)))

    def _nested(self, name: str, seen: set[str]) -> Iterator[str]:
        """The file with all it includes, but for what is seen, or is made when it is called."""
        seen.add(name)
        for line in _read(_file(name)):
            include = _INCLUDE.match(line)
            if include is None:
                yield line
            elif include[2] not in seen and include[2] not in self._rare:
                yield from self._nested(include[2], seen)


def _file(name: str) -> Path:
    return FOLDER / "lib" / f"{name}.lua"


@cache
def _read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _includes(path: Path) -> list[tuple[str, bool]]:
    """Return the files that a file includes, and whether each is rarely used."""
    found = filter(None, map(_INCLUDE.match, _read(path)))
    return [(include[2], include[1] is not None) for include in found]


def _has_variable(name: str) -> bool:
    return any(map(_VARIABLE.match, _read(_file(name))))


def _closure(names: set[str]) -> set[str]:
    """These files and all that they include."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [other for other, _ in _includes(_file(name))]
    return found
