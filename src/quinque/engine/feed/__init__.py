"""The rules of feeds: every group of consumers sees every message, until it expires.

feed.py     one feed: its messages in order, its groups
groups.py   one group's view of it: a cursor, its leases, what it may have again
decide.py   operation + feed + now -> the events that make it true
apply.py    event -> indexes; the only writer
due.py      what time alone makes true
"""

from __future__ import annotations
