"""Run the benches: python -m bench [NAME ...] [--quick] [--json FILE] [--python] [--readme]

Called by   make bench, people, tests/faults/test_benches.py.
Calls       the other files of this folder.

Without a name all of them run, which takes about half an hour. The benches run the package
that `make compiled` built, if it exists; with --python, the sources.

    --quick        a few requests each, to check that the benches work; the numbers mean nothing
    --json FILE    store the figures in FILE, next to those of the other build
    --readme       write the tables of README.md and docs/performance.md; measure nothing

For these tables: python -m bench --json bench/results.json, the same with --python, then --readme.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from bench import summary
from bench.harness import Result, compiled_folder, python_path
from quinque.version import is_compiled

# Benches that start a Spark, which takes longer than all others do when they are quick.
ON_SPARK = ("spark", "lifecycle_tables")
NAMES = (
    *("server", "jobs", "reliable", "tubes", "tarantool"),
    *("redis_store", "redis_cluster", "work_queue"),
    *("client", "workers"),
    *("backlog", "engine", "journal", "recovery", "lifecycle_cost"),
    *ON_SPARK,
)


def main() -> int:
    asked = _arguments()
    if asked.readme:
        summary.write_tables()
        return 0
    folder = compiled_folder()
    if folder is not None and not asked.python and not is_compiled():
        os.execve(
            sys.executable, [sys.executable, "-m", "bench", *sys.argv[1:]], python_path(folder)
        )
    build = "compiled" if is_compiled() else "python"
    print(f"build of the package: {summary.BUILDS[build]}", flush=True)
    figures: dict[str, float] = {}
    for name in asked.names or NAMES:
        result: Result = import_module(f"bench.{name}").run(asked.quick)
        figures |= result.figures
        for table in result.tables:
            print(f"\n{table.text()}", flush=True)
    if figures:
        print(f"\n{summary.compare(figures).text()}", flush=True)
    if asked.json:
        summary.save(asked.json, build, figures)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benches.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Send only a few requests each. The numbers mean nothing.",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="File in which to store the figures."
    )
    parser.add_argument(
        "--python", action="store_true", help="Run the sources instead of the compiled build."
    )
    parser.add_argument(
        "--readme", action="store_true", help="Write the tables of the pages and measure nothing."
    )
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown bench {', '.join(sorted(unknown))}; use one of {', '.join(NAMES)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
