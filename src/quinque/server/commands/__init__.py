"""Commands about the server itself, which Redis tools expect.

session.py       PING ECHO HELLO AUTH QUIT RESET SELECT
client.py        CLIENT …; client_line.py has the layout of CLIENT LIST
catalog.py       COMMAND …: the table of commands, for clients; usage.py reads usage lines
info.py          INFO
settings.py      CONFIG …
memory.py        MEMORY …
cluster.py       CLUSTER …, and the nodes that HELLO lists
latency.py       LATENCY …: slow operations
admin.py         TIME SLOWLOG MONITOR SHUTDOWN DEBUG
args.py          arguments, with the errors of Redis
subcommands.py   commands of two words, and their HELP
table.py         all commands, with those of the dialects
"""

from __future__ import annotations
