"""The command line: python -m tests.sim [--seed N] [--runs N] [--seconds S] [--verbose]"""

# ruff: noqa: T201  (it prints its verdicts)

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a run
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])

from tests.sim import times as sim_times

TIMES = sim_times.install()


def main() -> int:
    from time import process_time

    from tests.sim.bugs import BUGS
    from tests.sim.loop import install_threads
    from tests.sim.run import play

    install_threads()
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--seed", type=int, default=0, help="The first seed.")
    parser.add_argument("--runs", type=int, default=1, help="Number of seeds.")
    parser.add_argument("--seconds", type=float, default=60.0, help="Simulated seconds of a run.")
    parser.add_argument("--verbose", action="store_true", help="Print the log of the brokers.")
    parser.add_argument("--bug", default="", help="Play a deliberate bug, until it is found.")
    parser.add_argument("--trace", default="", help="File for what every client did.")
    asked = parser.parse_args()
    trace = Path(asked.trace).open("w", encoding="utf-8") if asked.trace else None  # noqa: SIM115
    import logging

    logging.basicConfig(level=logging.DEBUG if asked.verbose else logging.CRITICAL)
    families: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    if asked.bug:
        bug = BUGS[asked.bug]
        bug.make()
        families, faults = bug.families, bug.faults
    began_s, simulated_s, failed = process_time(), 0.0, 0
    counts: dict[str, int] = {}
    for seed in range(asked.seed, asked.seed + asked.runs):
        verdict = play(seed, TIMES, asked.seconds, families, faults, trace)
        simulated_s += verdict.simulated_s
        for name, count in verdict.counts.items():
            counts[name] = counts.get(name, 0) + count
        if verdict.failure and asked.bug:
            print(f"found {asked.bug} with seed {seed}: {verdict.failure}")
            break
        if verdict.failure:
            failed += 1
            print(f"seed {seed}: {verdict.failure}")
            for line in verdict.lines:
                print(f"    {line}")
        elif asked.runs == 1:
            print(f"seed {seed}: ok, {verdict.fingerprint & 0xFFFFFFFF:08x}")
    spent_s = process_time() - began_s
    print(
        f"{asked.runs} runs, {failed} failed; {simulated_s / max(spent_s, 1e-9):.0f} simulated s/s"
    )
    print(" ".join(f"{name}={count}" for name, count in sorted(counts.items())))
    sys.stdout.flush()
    os._exit(1 if failed else 0)


main()
