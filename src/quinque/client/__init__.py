"""Asking a broker for operations, from a program in Python.

aio/           for programs on an event loop; all is written here, once
sync/          the same for programs with threads, made from aio/ by tools/make_sync
               (each of the two has its own edge.py: sockets and waiting)
calls.py       each operation as requests, and what the replies to them mean
work_calls.py  the same for messages that are put, taken and looked at
own_calls.py   the same for families whose ids are their own
link.py        what a connection says and hears
addresses.py   URLs of brokers

Needs hiredis: pip install 'quinque[redis]', or 'quinque[spark]'.
"""

from __future__ import annotations
