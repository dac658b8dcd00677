"""The tree drawn in the docstring of quinque.errors is the tree of its classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quinque import errors
from quinque.errors import QuinqueError

# "    │   ├── WrongArity        ERR": four columns a level, the class, its code.
ROW = re.compile(
    r"^ {4}(?P<branch>[ │├└─]*)(?P<name>\w+)(?: +(?P<code>[A-Z]{2,}\b|usage:))?", re.MULTILINE
)


def test_every_class_is_drawn_under_its_parent_and_nothing_else_is() -> None:
    drawn = {(name, parent) for name, parent, _ in _drawn()}

    assert drawn == {(error.__name__, error.__mro__[1].__name__) for error in _classes()}


def test_every_class_is_drawn_with_its_code() -> None:
    codes = {error.__name__: error.code for error in _classes()}
    groups = {error.__name__ for error in _classes() if error.__subclasses__()}
    drawn = {name: code for name, _, code in _drawn() if code or name not in groups}

    assert drawn.items() <= codes.items()


def _drawn() -> Iterator[tuple[str, str, str | None]]:
    """Name, parent and code of each row; a row that only groups others may have no code."""
    ancestors = ["Exception"]
    for row in ROW.finditer(errors.__doc__ or ""):
        depth = 1 + len(row["branch"]) // 4
        del ancestors[depth:]
        yield row["name"], ancestors[-1], row["code"]
        ancestors.append(row["name"])


def _classes() -> Iterator[type[QuinqueError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, QuinqueError):
            yield value
