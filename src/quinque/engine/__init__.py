"""The rules of queues, pure: no I/O, no clock, no chance.

    decide.py   operation + queue + now  -> the events that make it true
    apply.py    event -> indexes; the only writer
    due.py      what time alone makes true, and when the next such thing is due
    queue.py    one queue: its messages in order, its groups
    groups.py   one group's view of a queue: a cursor, its leases, what it may have again

A store calls decide, journals the events, and applies them. Recovery applies the same events,
so no rule is written twice.
"""

from __future__ import annotations
