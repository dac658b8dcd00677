"""Counts of events, and the rows of the table of metrics.

    tally.py       state changes, by queue          the stores count
    expirations.py jobs that expired since the last log line    the stores count
    doublings.py   how often something was how large            the journal counts
    metric.py      one row of the table of metrics              server/metrics.py has the table

A count costs a dictionary lookup or less. No function here iterates over messages.
"""

from __future__ import annotations
