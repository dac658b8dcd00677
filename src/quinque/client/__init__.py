"""Asking a broker for operations, from a program in Python. Nothing here is asynchronous.

broker.py      Broker(url).run(op): the result of the operation, or its error; tries again
typed_run.py   what `run` gives for which operation
calls.py       each operation as requests, and what the replies to them mean
work_calls.py  the same for messages that are put, taken and looked at
own_calls.py   the same for families whose ids are their own
link.py        one connection
addresses.py   URLs of brokers

Needs hiredis: pip install 'quinque[redis]', or 'quinque[spark]'.
"""

from __future__ import annotations
