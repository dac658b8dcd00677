"""The words of each family: a request becomes an operation, a result becomes a reply.

command.py   one row per command, and what a parsed request can be
args.py      typed readers of arguments
bananaq.py   events: QADD QGET QACK …       okq.py   the same queues in okq's words
disque*.py   jobs: ADDJOB GETJOB ACKJOB …
"""

from __future__ import annotations
