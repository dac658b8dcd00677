"""The command `quinque spark`: Spark's own programs, with the Python and the Java they need.

Called by   cli/main.py.
Calls       spark/session.py.

Without a program it prints the environment, for `eval "$(quinque spark)"`. Otherwise it runs the
program: `quinque spark pyspark`, `quinque spark spark-submit job.py`. The Java that it uses is
printed on stderr.

Not here: the jobs (cli/pipeline.py).
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from quinque.errors import BadSetting
from quinque.errors.extras import package_missing


def run(words: list[str]) -> int:
    """Print the environment, or replace this process by the program. Raises BadSetting."""
    try:
        import pyspark

        from quinque.spark.session import NoJava, prepare_environment
    except ModuleNotFoundError as exc:
        raise package_missing(exc.name, "spark") from exc
    try:
        java = prepare_environment()
    except NoJava as exc:
        raise BadSetting(str(exc)) from exc
    click.echo(java.said, err=True)
    # Programs of pyspark, and those next to our Python, come before the PATH.
    folders = [str(Path(pyspark.__file__).parent / "bin"), str(Path(sys.executable).parent)]
    os.environ["PATH"] = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    if not words:
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME"):
            click.echo(f"export {name}={shlex.quote(os.environ[name])}")
        return 0
    try:
        os.execvp(words[0], words)
    except OSError as exc:
        raise BadSetting(f"cannot run {words[0]}: {exc.strerror}") from exc
