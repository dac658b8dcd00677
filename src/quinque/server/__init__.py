"""The broker's side of connections: sockets, requests, blocked clients, timers.

broker.py       the parts of a running broker: its store, users, clients, waiters
listener.py     sockets: TCP, unix, TLS          connection.py  one client: bytes in, bytes out
dispatch.py     a request -> its row -> a reply  turn.py        the end of an event loop iteration
waiters.py      readers that wait                ticker.py      work that is due at a time
counts.py       the counts of INFO                 latency.py     slow operations
commands/       commands about the server itself
config*.py      settings                         users.py       users and their permissions
"""

from __future__ import annotations
