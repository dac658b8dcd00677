"""The words of each family: a request becomes an operation, a result becomes a reply.

command.py   one row per command, and what a parsed request can be
args.py      typed readers of arguments
bananaq.py   events: QADD QGET QACK …       okq.py   the same queues in okq's words
disque*.py   jobs: ADDJOB GETJOB ACKJOB …
redisrq.py   reliable: RQ.PUSH RQ.POP RQ.ACK …
workqueue.py items: WQ.ADD WQ.LEASE WQ.COMPLETE …
keys.py      TYPE DEL RENAME EXPIRE SCAN …, on queues by their names
claims.py    CLAIM.*, for queues of every family; stages.py STAGE.* and messages.py MESSAGES.* too
lifecycle.py LIFECYCLE.*: what happened to messages
options.py   what these four have in common
"""

from __future__ import annotations
