"""A worker: it calls your functions with the messages of queues, in supervised processes.

    from quinque.worker import App

    app = App("redis://localhost:4777")

    @app.handler("emails", codec="json")
    def send(email): ...

    $ quinque work emails:app --processes 2

app.py          what a program says: handlers and hooks
handlers.py     one handler and its settings
message.py      a message as a handler has it
backoff.py      how long a message rests after a failure
sources.py      each family: how its messages are taken, finished, kept, given back and buried
tube_source.py  the same for tubes
executors.py    where handlers run: tasks of the event loop, or threads
desk.py         the messages of one handler, from the queue to their end
ahead.py        how many of them are taken before they can be begun
asking.py       asking a broker that may be away for a while
leases.py       leases of what is held are extended, as long as it is worked
runtime.py      all handlers of one process, from the start to the last message
leftovers.py    settles the messages that a process held when it died
shared.py       all memory that a process shares with its supervisor:
board.py        its state, which stays readable when it dies
failures.py     how often messages have failed, as all processes know it
figures.py      what it counts of each handler (counting.py)
lives.py        whether the others live, and what they died of is counted
memory.py       makes such memory
process.py      such a process
supervisor.py   starts the processes, and starts them again
totals.py       what all processes counted, those that have ended included
metrics.py      the table of the metrics for Prometheus
health.py       whether work gets done, for a probe: a file and an HTTP port
tracing.py      spans of OpenTelemetry, where a program has that

Layers: everything here may use client/, and only cli/ uses this.
"""

from __future__ import annotations

from quinque.worker.app import App
from quinque.worker.backoff import Backoff, Fail, Retry
from quinque.worker.message import Message

__all__ = ["App", "Backoff", "Fail", "Message", "Retry"]
