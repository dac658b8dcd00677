"""Asking a broker for operations, from a program in Python.

aio/           for programs on an event loop; all is written here, once
sync/          the same for programs with threads, made from aio/ by tools/make_sync
               (each of the two has its own edge.py, connections and waiting, its own
               interrupted.py, and its own local.py, a store in the process)
calls.py       each operation as requests, and what the replies to them mean
work_calls.py  the same for messages that are put, taken and looked at
job_calls.py   the same for what only jobs have
own_calls.py   the same for families whose ids are their own
tube_calls.py  the same for tubes and their tasks
parts.py       words that are too many for one request
codecs.py      values as bodies, and back
kept_body.py   the body of a message, decoded when it is looked at
checks.py      names and numbers of programs, refused as commands would
spans.py       seconds of programs as milliseconds of operations
link.py        what a connection says and hears
refusals.py    what refusals among its replies mean
opened.py      what a store in the process can be asked
addresses.py   URLs of brokers
login.py       who asks, and how both sides know each other
homes.py       whether brokers of one URL share a store
"""

from __future__ import annotations
