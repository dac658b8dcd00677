"""Commands about the server itself, those that Redis tools expect.

session.py       PING ECHO HELLO AUTH QUIT RESET SELECT
client.py        CLIENT …; client_line.py has the layout of CLIENT LIST
catalog.py       COMMAND …: the table of commands, for clients; usage.py reads usage lines
info.py          INFO
settings.py      CONFIG …
memory.py        MEMORY …
cluster.py       CLUSTER …, and the nodes that HELLO lists
latency.py       LATENCY …: what took long
admin.py         TIME SLOWLOG MONITOR SHUTDOWN DEBUG
args.py          arguments, refused in Redis's words
subcommands.py   commands of two words, and their HELP
table.py         all of them, and the dialects'
"""

from __future__ import annotations
