"""The wall clock of one broker, moved while it runs or while it is down.

Called by   test_clocks.py, test_jobs_restart.py.
Calls       libfaketime (the package faketime), which the broker is started with.

Not here: the monotonic clock, which only a time namespace moves (test_clocks.py).
"""

from __future__ import annotations

from pathlib import Path


class WallClock:
    """The wall clock of a broker started with these variables."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        assert libraries, "libfaketime moves the clock of this test: install the package faketime"
        self._file = folder / "offset"
        self.jump(0)
        self.variables = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def jump(self, by_s: int) -> None:
        """From now on the clock is so far from the true time."""
        # In one step: a reader never finds an empty file.
        written = self._file.with_suffix(".new")
        written.write_text(f"{by_s:+d}\n")
        written.rename(self._file)
