"""Run the benches: python -m bench [NAME ...] [--quick] [--json FILE] [--python] [--readme]

Called by   make bench, people, tests/faults/test_benches.py.
Calls       the other files of this folder.

Without a name all of them run, which takes about half an hour. The package that runs is the
one `make compiled` built, if it is there; --python takes the sources.

    --quick        a few requests each, to see that the benches still work; the numbers mean nothing
    --json FILE    keep the figures in FILE, beside those of the other build
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
from bench.harness import Result, compiled_folder, is_compiled, python_path

# Those that start a Spark, which takes longer than all others do when they are quick.
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
    print(f"The package that runs: {summary.BUILDS[build]}", flush=True)
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
    parser.add_argument("--quick", action="store_true", help="a few requests each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures there")
    parser.add_argument("--python", action="store_true", help="run the sources, not the build")
    parser.add_argument("--readme", action="store_true", help="write the tables of the pages")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(
            f"there is no bench {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    return asked


if __name__ == "__main__":
    sys.exit(main())
