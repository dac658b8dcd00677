"""Counting: what is counted while messages are handled, and how a count is shown.

    tally.py       what became of messages, per queue          the stores count
    expirations.py jobs that expired since the last log line    the stores count
    doublings.py   how often something was how large            the journal counts
    metric.py      one row of the table of metrics              server/metrics.py has the table

Counting costs a dictionary look-up or less. Nothing here walks through messages.
"""

from __future__ import annotations
