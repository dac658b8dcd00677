"""The rules of queues, pure: no I/O, no clock, no chance.

    queue.py      what every queue has
    calendar.py   reminders: ids by the millisecond they are due
    feed/         queues that groups of consumers read, each group all of it
    work/         queues whose messages are each worked by one consumer
    claims/       messages that are taken from either in numbered lots

A store decides an operation into events, journals them, and applies them. Recovery applies the same
events, so no rule is written twice.
"""

from __future__ import annotations
