"""The Python client: run operations at a broker.

aio/           for programs on an event loop; all is written here, once
sync/          the same for programs with threads, made from aio/ by tools/make_sync
               (each of the two has its own edge.py, connections and waiting, its own
               interrupted.py, and its own local.py, a store in the process)
calls.py       each operation as requests, and what the replies to them mean
work_calls.py  the same for messages that are put, taken and looked at
job_calls.py   the same for what only jobs have
own_calls.py   the same for families whose ids are their own
tube_calls.py  the same for tubes and their tasks
parts.py       split long lists into several requests
codecs.py      turn values into bodies, and back
kept_body.py   the body of a message, decoded when it is read
checks.py      check names and numbers as commands would
spans.py       turn seconds into milliseconds
link.py        pack requests and read replies
refusals.py    turn error replies into errors
opened.py      the protocol of a store in the process
addresses.py   URLs of brokers
login.py       log in, and verify certificates
homes.py       whether brokers of one URL share a store
"""

from __future__ import annotations
