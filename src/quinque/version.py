"""The version of the package, and which build of it runs.

Called by   everything that says which version it is; the build.
Calls       nothing.

Not here: versions of the journal (stores/embedded/records.py).
"""

from __future__ import annotations

from importlib.util import find_spec

__version__ = "0.1.0"


def is_compiled() -> bool:
    """Return whether the package that runs is the compiled build."""
    found = find_spec("quinque.engine.calendar")
    return found is not None and not str(found.origin).endswith(".py")


def build() -> str:
    """Return the name of the build, as a person reads it."""
    return "compiled" if is_compiled() else "pure Python"
