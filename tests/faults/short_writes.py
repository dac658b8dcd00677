"""Run a broker whose writes are short: the kernel may do so at any time, and hardly ever does.

Called by   tests, in front of a broker's command line:
            python -m tests.faults.short_writes python -m quinque serve ...
Calls       quinque, in this process.

A batch then takes many writes, so that a kill may come between any two of them.

Not here: writes that fail (test_failing_disk.py).
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

MOST_BYTES = 48

_pwrite = os.pwrite


def pwrite_shortly(file: int, data: Any, at: int) -> int:
    return _pwrite(file, memoryview(data)[:MOST_BYTES], at)


def main() -> None:
    _, _python, _dash_m, module, *words = sys.argv
    os.pwrite = pwrite_shortly
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
