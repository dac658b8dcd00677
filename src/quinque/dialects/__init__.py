"""The commands of each family: turn requests into operations, and results into replies.

command.py   one row per command, and what a parsed request can be
args.py      typed readers of arguments
bananaq.py   events: QADD QGET QACK …       okq.py   the same queues in okq's words
event_leases.py   the same queues: QEXTEND QRELEASE QUNGET
disque*.py   jobs: ADDJOB GETJOB ACKJOB …
redisrq.py   reliable: RQ.PUSH RQ.POP RQ.ACK …
workqueue.py items: WQ.ADD WQ.LEASE WQ.COMPLETE …
tube*.py     tubes: TUBE.PUT TUBE.TAKE TUBE.ACK …   tarantool*.py   the same, as Tarantool has it
task_data.py data of tasks, as clients of both see it
keys.py      TYPE DEL RENAME EXPIRE SCAN …, on queues by their names
claims.py    CLAIM.*, for queues of all families but tubes; so stages.py and messages.py
lifecycle.py LIFECYCLE.*: the lifecycle log
options.py   the options that these four share
"""

from __future__ import annotations
