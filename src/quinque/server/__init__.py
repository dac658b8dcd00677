"""The broker as clients meet it: sockets, connections, dispatch, waiting, time.

broker.py       what one running broker has: its store, users, clients, waiters
listener.py     sockets: TCP, unix, TLS          connection.py  one client: bytes in, bytes out
dispatch.py     a request -> its row -> a reply  turn.py        what ends a turn of the event loop
waiters.py      readers that wait                ticker.py      what the clock starts
counts.py       what INFO counts                 latency.py     what took long
commands/       commands about the server itself
config*.py      settings                         users.py       who may do what
"""

from __future__ import annotations
